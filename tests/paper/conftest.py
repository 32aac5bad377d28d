import pytest


@pytest.fixture
def here(tmp_path) -> tuple[str, ...]:
    """Overrides that keep runs inside of the test's folder."""
    return (f"out_dir={tmp_path / 'runs'}",)
