"""Tied weights: one posterior, two uses, one KL, one draw; and what a model lists of its ties."""

import copy
import re

import pytest
import torch
from torch import Tensor, nn

from varnet import collapse, kl, predicting, prune, resample, variational


class Language(nn.Module):
    """Words in, words out, by the same table."""

    def __init__(self, tied: bool = True):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(self.words(x))))


x = torch.tensor([[1, 2, 3], [3, 0, 6]])


@pytest.mark.parametrize("param", ["zero_mean", "layer", "neuron", "weight", "additive"])
def test_one_posterior_two_uses(param):
    model = variational(Language(), param=param, prior="gaussian", learn_scale=True)
    words, head = model.words, model.head
    assert all(getattr(words, name) is getattr(head, name) for name in (*words.of_param, "log_scale"))
    torch.testing.assert_close(kl(model), words.kl() + model.inner.kl())
    with predicting(model, "weights"):
        for _ in range(2):
            assert torch.equal(words.weight, head.weight)
            resample(model)
    with predicting(model, "permuted"):
        assert torch.equal(words.permutation, head.permutation)
    (model(x).sum() + kl(model)).backward()
    assert len(list(model.parameters())) == len({id(p) for p in model.parameters()})
    twin = copy.deepcopy(model)
    torch.testing.assert_close(kl(twin), kl(model))
    model.double()
    assert all(getattr(words, name) is getattr(head, name) for name in words.of_param)


def test_deterministic_mode_and_the_checkpoint_of_the_plain_network():
    plain = Language()
    expected, state = plain(x), plain.state_dict()
    model = variational(Language(), log_alpha=-1.0)
    model.load_state_dict(state)
    with predicting(model, "deterministic"):
        assert torch.equal(model(x), expected)
    assert model.words.mu is model.head.mu


def test_ties_outlast_conversion_to_zero_mean_and_pruning():
    model = variational(Language(), log_alpha=8.0)
    report = collapse(model)
    assert [row.collapsed for row in report] == [True] * 3
    assert model.words.sigma is model.head.sigma
    torch.testing.assert_close(kl(model), torch.zeros(()))
    pruned = prune(model, 0.5)
    assert pruned.words.sigma is pruned.head.sigma and int((pruned.words.sigma == 0).sum()) == 14


def test_a_later_call_joins_the_posterior_of_an_earlier_one():
    model = Language()
    with pytest.warns(UserWarning, match="'words' has the weight of 'head', which stays plain: they share their mean"):
        variational(model, "words", log_alpha=-2.0)
    variational(model, "head", log_alpha=-2.0)
    assert model.words.log_alpha is model.head.log_alpha


def test_it_is_said_where_weights_are_untied():
    with pytest.warns(UserWarning, match="'words' has the weight of 'head', which stays plain: they are untied"):
        variational(Language(), "words", param="zero_mean")

    class Other(nn.Module):
        """A convolution of the same weights, whose output units are along the other axis."""

        def __init__(self):
            super().__init__()
            self.up, self.down = nn.ConvTranspose1d(4, 4, 1), nn.Conv1d(4, 4, 1)
            self.up.weight = self.down.weight

    with pytest.warns(UserWarning, match="'down' and 'up' had one weight and are untied.*use param=layer"):
        model = variational(Other(), param="neuron")
    assert model.up.log_alpha is not model.down.log_alpha and model.up.mu is model.down.mu
    model = variational(Other())
    assert model.up.log_alpha is model.down.log_alpha


def shared_names(model: nn.Module) -> list[set[str]]:
    """Names of a state_dict that are one tensor: what safetensors refuses to write twice."""
    found: dict[int, set[str]] = {}
    for name, tensor in model.state_dict().items():
        found.setdefault(tensor.data_ptr(), set()).add(name)
    return [names for names in found.values() if len(names) > 1]


@pytest.mark.parametrize("keys", [["head.weight"], [r"head\.weight"], {"head.weight": "words.weight"}], ids=str)
def test_names_of_ties_that_a_model_lists_are_translated(keys):
    """As save_pretrained of transformers uses them: of tensors that are one, all but one name have to be listed."""

    class Listed(Language):
        _tied_weights_keys = keys

    outer = nn.Sequential()
    outer.add_module("net", Listed())
    for model, prefix in ((variational(Listed(), param="layer"), ""), (variational(outer, param="layer"), "net.")):
        owner = model if not prefix else model.net
        for names in shared_names(model):
            listed = owner._tied_weights_keys
            left = [n for n in names if not any(re.fullmatch(key, n.removeprefix(prefix)) for key in listed)]
            assert len(left) == 1, names
        if isinstance(keys, dict):
            assert owner._tied_weights_keys["head.log_alpha"] == "words.log_alpha"
    assert Listed._tied_weights_keys is keys
