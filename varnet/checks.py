"""Values of options, checked with one sentence that names the option, the value and the remedy."""

import math
import numbers


def choice(key: str, value: object, choices) -> None:
    if value not in tuple(choices):
        raise ValueError(f"{key}={value!r} is not known; choose one of: {', '.join(map(str, choices))}")


def number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{key}={value!r} does not do: use a finite number")
    return float(value)


def whole(key: str, value: object, low: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < 2**63:
        raise ValueError(f"{key}={value!r} does not do: use a whole number from {low}")
    return value


def interval(key: str, value: object) -> tuple[float, float]:
    try:
        low, high = (number(key, v) for v in value)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if low >= high:
        raise ValueError(f"{key}={value!r} is not a range; give two numbers, the smaller first, or null for none")
    return low, high
