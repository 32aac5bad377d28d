"""The import of a user's own function: where it is looked for, and what is said when it is not there."""

import subprocess
import sys
from pathlib import Path

import pytest

import varnet
from varnet.base.importing import imported
from varnet.errors import ConfigError


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module in a folder that becomes the current one; give its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    written = []

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_functions_of_the_current_folder_and_of_packages(module):
    text = "def load(): return 5\nclass Maker:\n    make = staticmethod(lambda: 6)\n"
    name = module("varnet_test_own", text)
    assert imported(f"{name}:load")() == 5
    assert imported(f"{name}:Maker.make")() == 6
    assert imported("os.path:basename")("a/b") == "b"


@pytest.mark.parametrize(
    "path", [None, 5, "", "math", "math.sqrt", ":sqrt", "math:", ".math:sqrt", "a b:c", "math:a-b"]
)
def test_what_is_no_path(path):
    with pytest.raises(ConfigError, match=r"is invalid: use package\.module:function") as error:
        imported(path, "model.target")
    assert error.value.key == "model.target"


@pytest.mark.parametrize(
    "text, name, reason",
    [
        ("", "load", "has no attribute 'load'"),
        ("load = 5", "load", "is not a function (its type is int)"),
        ("import varnet_test_nothing", "load", "ModuleNotFoundError: No module named 'varnet_test_nothing'"),
        ("raise ValueError('two\\nlines')", "load", "(ValueError: two lines)"),
        ("raise SystemExit(3)", "load", "(SystemExit: 3)"),
        ("def load(:", "load", "SyntaxError"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(module, text, name, reason):
    path = f"{module('varnet_test_wrong', text)}:{name}"
    with pytest.raises(ConfigError) as error:
        imported(path, "dataset.target")
    message = str(error.value)
    assert message.startswith(f"dataset.target={path} ") and reason in message and "\n" not in message
    assert error.value.key == "dataset.target" and "use package.module:function" in message


def test_a_command_elsewhere_on_the_path_finds_the_current_folder(tmp_path):
    """As `varnet train` does, whose path begins with the folder of the installed script."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "command.py").write_text(
        f"import sys; sys.path.append({str(Path(varnet.__file__).parents[1])!r})\n"
        "from varnet.base.importing import imported\nprint(imported('mine:five')())\n"
    )
    (tmp_path / "mine.py").write_text("def five(): return 5\n")
    command = [sys.executable, "bin/command.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "5\n", done.stderr
    if sys.version_info < (3, 11):
        return  # has no -P
    safe = subprocess.run([command[0], "-P", command[1]], cwd=tmp_path, capture_output=True, text=True)
    assert safe.returncode == 1 and "No module named 'mine'" in safe.stderr
