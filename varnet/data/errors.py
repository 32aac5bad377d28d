"""What can go wrong with data, as one sentence for the user or one reason in a list of sources."""


class DataError(RuntimeError):
    """A dataset cannot be had or an option does not fit it; the message says what to do."""


class SourceError(Exception):
    """One source failed; the next one is tried and the reason kept for the final DataError."""
