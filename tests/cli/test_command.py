"""The command `varnet`: its subcommands, and texts that name what the user types."""

import importlib
import re

import pytest

import varnet
from varnet import cli
from varnet.base import invocation


@pytest.fixture
def started(monkeypatch):
    """varnet ARGUMENTS, in this process."""

    def start(*arguments: str) -> int | None:
        monkeypatch.setenv(invocation.STARTED, "")  # what main sets is taken back
        monkeypatch.setattr("sys.argv", ["/usr/bin/varnet", *arguments])
        try:
            cli.main()
        except SystemExit as end:
            return end.code
        return None

    return start


def test_every_command_has_its_function():
    for name, (_, function) in cli.COMMANDS.items():
        assert callable(getattr(importlib.import_module(f"varnet.cli.{name}"), function))


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(started, capsys, arguments):
    assert not started(*arguments)
    assert all(f"varnet {name} " in capsys.readouterr().out for name in ["train"])
    assert cli.help_text().count("\n  varnet ") == len(cli.COMMANDS)


@pytest.mark.parametrize("words", [(), *((name,) for name in cli.COMMANDS), ("train", "param=layer")])
def test_the_version_is_that_of_the_package(started, capsys, words):
    assert not started(*words, "--version")
    assert capsys.readouterr().out == f"varnet {varnet.__version__}\n"


@pytest.mark.parametrize(("given", "hint"), [("tran", "did you mean train?"), ("xyz", "choose one of train, evaluate")])
def test_an_unknown_command_is_answered_in_a_sentence(started, capsys, given, hint):
    assert started(given) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: there is no command {given}: ") and hint in captured.err


@pytest.mark.parametrize("name", [name for name in cli.COMMANDS if name not in ("train", "rl")])  # theirs is Hydra's
def test_help_names_commands_as_they_were_started(started, capsys, name):
    assert not started(name, "--help")
    text = capsys.readouterr().out
    assert f"varnet {name}" in text or name == "reproduce"
    assert not re.search(r"\.py\b", text)


def test_commands_are_those_of_the_checkout_unless_started_as_varnet(monkeypatch):
    monkeypatch.delenv(invocation.STARTED, raising=False)
    scripts = "python train.py a=1, python scripts/fetch_data.py mnist, scripts/rl.py"
    assert invocation.command("fetch") == "python scripts/fetch_data.py"
    assert invocation.as_typed(scripts) == scripts
    monkeypatch.setenv(invocation.STARTED, "varnet")
    assert invocation.command("fetch") == "varnet fetch"
    assert invocation.as_typed(scripts) == "varnet train a=1, varnet fetch mnist, varnet rl"
    monkeypatch.delenv(invocation.STARTED)
    monkeypatch.setattr(invocation, "CHECKOUT", False)  # in a wheel there is no script to name
    assert invocation.command("train") == "varnet train"


def test_a_message_of_training_names_the_command(started, capsys):
    assert started("train", "modle=lenet5") == 2
    assert "varnet train --help lists the keys" in capsys.readouterr().err
