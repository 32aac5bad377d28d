"""Wrong input: one clear sentence that carries its key as data and says what to do."""

from collections.abc import Callable

import pytest


def assert_refused(call: Callable[[], object], key: str | None, *words: str) -> None:
    """It raises a ValueError about this key (None: about no option), in one line that has all the words."""
    with pytest.raises(ValueError) as caught:
        call()
    assert getattr(caught.value, "key", None) == key
    assert "\n" not in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []
