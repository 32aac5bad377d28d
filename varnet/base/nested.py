"""Dictionaries inside dictionaries, as configurations are."""


def flat(values: dict, prefix: str = "") -> dict:
    """{"a": {"b": 1}} -> {"a.b": 1}"""
    found = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def without_nulls(values: dict) -> dict:
    return {k: without_nulls(v) if isinstance(v, dict) else v for k, v in values.items() if v is not None}


def is_plain(values: object, most: int = 10_000, depth: int = 30) -> bool:
    """Whether it consists of groups, lists, texts, numbers and nulls, not deep and at most so many in all, where one
    that is used twice counts twice: a kilobyte can stand for billions."""
    left = [(values, 0)]
    while left:
        value, level = left.pop()
        most -= 1
        if isinstance(value, dict) and all(isinstance(key, str | int) for key in value):
            inside: list = list(value.values())
        elif isinstance(value, list):
            inside = value
        elif value is None or isinstance(value, str | int | float):
            continue
        else:
            return False
        if len(inside) > most or level == depth:
            return False
        left += [(one, level + 1) for one in inside]
    return most >= 0
