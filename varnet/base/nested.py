"""Dictionaries inside dictionaries, as configurations are."""


def flat(values: dict, prefix: str = "") -> dict:
    """{"a": {"b": 1}} -> {"a.b": 1}"""
    found = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def without_nulls(values: dict) -> dict:
    return {k: without_nulls(v) if isinstance(v, dict) else v for k, v in values.items() if v is not None}
