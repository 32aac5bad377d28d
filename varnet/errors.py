"""Every exception that a user may meet. Each is one sentence; what is wrong with an option carries its key as data."""

import signal

_NOTHING = object()


def shown(value: object) -> str:
    """Write a value as YAML and the command line do."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def one_line(error: object) -> str:
    """A message without its line breaks."""
    return " ".join(str(error).split())


class ConfigError(ValueError):
    """An option that is wrong: its key, its value and the remedy.

    >>> str(ConfigError("is invalid: use a number above 0", "width", -1))
    'width=-1 is invalid: use a number above 0'
    """

    def __init__(self, text: object, key: str | None = None, value: object = _NOTHING):
        """text: what follows key=value; the whole sentence where no single key is at fault."""
        super().__init__(text)
        self.key, self.text, self.value = key, str(text), value

    def __str__(self) -> str:
        if self.key is None:
            return self.text
        return f"{self.key}: {self.text}" if self.value is _NOTHING else f"{self.key}={shown(self.value)} {self.text}"

    def called(self, key: str | None) -> "ConfigError":
        """The same error about the key by another name: by -> eval.prune_by."""
        return ConfigError(self.text, key, self.value)

    def under(self, group: str) -> "ConfigError":
        """The same error with its key inside a group of the configuration: width -> model.width."""
        return self if self.key is None else self.called(f"{group}.{self.key}")


class DataError(RuntimeError):
    """A dataset cannot be had; the message says what was tried and what to do."""


class SourceError(Exception):
    """One source failed; the next one is tried and the reason kept for the final DataError."""


class CheckpointError(RuntimeError):
    """No checkpoint can be read; the message says why, file by file."""


class ExportError(RuntimeError):
    """A package of the extra `export` is missing."""


# ---- how a run may end before its end. `shared`: all processes of a run agree on it


class Interrupted(Exception):
    """Stopped by a signal after saving a checkpoint."""

    shared = True

    def __init__(self, number: int):
        super().__init__(number)
        self.number, self.exit_code = number, 128 + number

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.number).name}"


class Diverged(RuntimeError):
    """The loss is not finite."""

    shared = True


class RankLost(RuntimeError):
    """Another process of the run is gone."""


class FolderLost(RuntimeError):
    """The folder of a run is not the one that it began to write into."""


class Stopped(Exception):
    """A run that does not go on: one sentence and the exit code."""

    def __init__(self, message: object, code: int):
        super().__init__(str(message), code)
        self.code = code

    def __str__(self) -> str:
        return self.args[0]


class JobFailed(Exception):
    """A job of a sweep that did not finish; the message says which and why."""
