"""What a value has to be: what fits, what does not, and the sentence that says so."""

import math

import pytest

from tests.nn.refused import assert_refused
from varnet.base import checks
from varnet.errors import ConfigError

CASES = [  # check, what fits, what does not, the remedy
    (checks.whole(1), [1, 7], [0, -1, 1.0, True, "1", None], "use a whole number from 1"),
    (checks.whole(0, 3), [0, 3], [4], "use a whole number from 0 to 3"),
    (checks.number(), [-5, 0.5], [math.nan, math.inf, True, "1", None, [1]], "use a finite number"),
    (checks.number(0, above=True), [1e-300, 2], [0, -1], "use a finite number above 0"),
    (checks.number(0, 1), [0, 1], [-0.1, 1.1], "use a finite number from 0 up to 1"),
    (checks.number(0, 1, below=True), [0, 0.999], [1], "use a finite number from 0 below 1"),
    (checks.one_of("auto", True, 1), ["auto", True, 1], ["true", False, 1.0, None], "use one of auto, true, 1"),
    (checks.SWITCH, [True, False], [0, 1, "true", None], "use one of true, false"),
    (checks.or_null(checks.whole(1)), [None, 2], [0], "use a whole number from 1, or null"),
    (
        checks.list_of(checks.whole(1), "a list of epochs"),
        [[], [1, 2], (3,)],
        [3, "12", [0], {1: 1}],
        "a list of epochs",
    ),
    (checks.INTERVAL, [[-1, 1.5], (0, 1)], [[1, 1], [2, 1], [1], 3, [0, math.inf]], "two numbers, the smaller first"),
    (checks.FOLDER, ["a/b", "../x"], ["", 5, None], "use the name of a folder (a number as ./5)"),
    (checks.FOLDER_INSIDE, ["a", "a/b"], ["", "/a", "../a", "a//b", "a/.", 5], "use a name of a folder inside out_dir"),
    (checks.SEED, [0, 2**31 - 1], [-1, 2**31], "use a whole number from 0 to 2147483647"),
]


@pytest.mark.parametrize(("check", "right", "wrong", "remedy"), CASES)
def test_what_fits_is_returned_and_what_does_not_is_named(check, right, wrong, remedy):
    for value in right:
        assert check("group.key", value) is value
    for value in wrong:
        assert_refused(lambda value=value: check("group.key", value), "group.key", remedy)


def test_an_error_moves_into_its_group():
    error = ConfigError("is invalid: use more", "width", 0.5)
    assert (error.under("model").key, str(error.under("model"))) == (
        "model.width",
        "model.width=0.5 is invalid: use more",
    )
    alone = ConfigError("there is nothing to do: name a run")
    assert alone.under("model") is alone and alone.key is None


@pytest.mark.parametrize(("value", "written"), [(None, "null"), (True, "true"), ([1, 2], "[1, 2]"), ("a", "a")])
def test_values_are_shown_as_they_are_typed(value, written):
    assert str(ConfigError("is invalid", "key", value)) == f"key={written} is invalid"
