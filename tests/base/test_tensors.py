"""Tensors in files: what is wanted and nothing else, known before anything is allocated."""

import json

import pytest
import torch

from varnet.base import tensors
from varnet.base.tensors import Unreadable, halved

HELD = {"a.weight": torch.arange(6.0).view(2, 3), "count": torch.tensor(3), "a.bias": torch.ones(2).bfloat16()}
SHAPES = {"a.weight": (2, 3), "count": (), "a.bias": (2,)}


@pytest.fixture
def file(tmp_path):
    tensors.save(tmp_path / "x.safetensors", HELD)
    return tmp_path / "x.safetensors"


def rewritten(file, change) -> None:
    """The same bytes behind another description."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    change(head)
    text = json.dumps(head).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def test_what_was_saved_is_read(file):
    found = tensors.load(file, SHAPES)
    assert tensors.shapes(file) == SHAPES and found.keys() == HELD.keys()
    assert all(torch.equal(found[name], HELD[name]) and found[name].dtype == HELD[name].dtype for name in HELD)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({**SHAPES, "b": (1,)}, "b is missing"),
        ({"count": (), "a.bias": (2,)}, "there is no a.weight"),
        ({**SHAPES, "a.weight": (3, 2)}, r"a.weight is \(2, 3\), not \(3, 2\)"),
    ],
)
def test_other_names_and_shapes_are_refused(file, wanted, words):
    with pytest.raises(Unreadable, match=words):
        tensors.load(file, wanted)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda head: head["a.weight"].update(shape=[10**9, 10**9]), "not as long as its description says"),
        (lambda head: head["a.weight"].update(shape=[-2, -3]), "no possible shape"),
        (lambda head: head["a.weight"].update(shape=[True, 6]), "no possible shape"),
        (lambda head: head["a.weight"].update(dtype="F64", shape=[3]), "numbers of type F64"),
        (lambda head: head["a.weight"].update(data_offsets=[4, 28]), "is damaged"),
        (lambda head: head.update({"a.weight": 3}), "description that cannot be read"),
    ],
)
def test_a_description_that_lies_is_refused(file, change, words):
    rewritten(file, change)
    with pytest.raises(Unreadable, match=words):
        tensors.load(file, tensors.shapes(file))


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, (2**40).to_bytes(8, "little") + b"{}", b"\x80\x04" * 40])
def test_a_file_without_a_description_is_refused(file, content):
    file.write_bytes(content)
    with pytest.raises(Unreadable, match="no description"):
        tensors.shapes(file)


def test_half_precision_is_the_one_that_loses_less():
    ordinary, tiny, huge = torch.tensor([0.1, -3.0, 0.0]), torch.tensor([1e-9, 1.0]), torch.tensor([1e6, 1.0])
    assert halved(ordinary).dtype == torch.float16
    assert halved(tiny).dtype == halved(huge).dtype == torch.bfloat16
    torch.testing.assert_close(halved(tiny).float(), tiny, rtol=2**-8, atol=0)
    torch.testing.assert_close(halved(ordinary).float(), ordinary, rtol=2**-11, atol=0)
