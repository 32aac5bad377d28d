"""What a conversion takes over: checkpoints of the plain network, hooks; and optimizers that were made before."""

import warnings

import pytest
import torch
from torch import nn

from varnet import collapse, predicting, variational
from varnet.nn.layers import Linear


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 5))


@pytest.mark.parametrize("param", ["zero_mean", "layer", "neuron", "weight", "additive", "deterministic"])
def test_a_checkpoint_of_the_plain_network_loads(param):
    """Its weights become the means; noise is as in a network that was made of them."""
    plain, x = network().eval(), torch.randn(4, 2, 6)
    expected = plain(x)
    model = variational(network(), param=param, prior="gaussian", learn_scale=True)
    for p in model.parameters():
        nn.init.normal_(p)
    model.load_state_dict(plain.state_dict())
    wanted = variational(plain, param=param, prior="gaussian", learn_scale=True).state_dict()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in model.state_dict().items())
    if param != "zero_mean":
        with predicting(model, "deterministic"):
            assert torch.equal(model(x), expected)


def test_a_checkpoint_of_the_variational_network_is_not_touched():
    model = variational(network(), log_alpha=-3.0)
    nn.init.constant_(model[4].log_alpha, 1.5)
    twin = variational(network(), log_alpha=-3.0)
    twin.load_state_dict(model.state_dict())
    assert twin[4].log_alpha.item() == 1.5


def test_a_checkpoint_that_does_not_fit_is_refused_by_its_names():
    state = {**network().state_dict(), "4.weight": torch.zeros(5, 7)}
    with pytest.raises(RuntimeError, match=r"size mismatch for 4.mu"):
        variational(network()).load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Missing key.*4.mu"):
        variational(network()).load_state_dict({k: v for k, v in network().state_dict().items() if k != "4.weight"})


def test_hooks_are_carried_over_and_their_handles_remove_them():
    model, called = network(), []
    handles = [
        model[4].register_forward_hook(lambda *_: called.append("forward")),
        model[4].register_forward_pre_hook(lambda *_: called.append("before")),
        model[4].register_full_backward_hook(lambda *_: called.append("backward")),
    ]
    variational(model)
    model(torch.randn(2, 2, 6)).sum().backward()
    assert called == ["before", "forward", "backward"] and isinstance(model[4], Linear)
    for handle in handles:
        handle.remove()
    model(torch.randn(2, 2, 6)).sum().backward()
    assert len(called) == 3


def test_hooks_that_cannot_be_carried_over_are_named():
    model = network()
    model[4].register_load_state_dict_post_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="'4' loses its hooks on loading"):
        variational(model)


def step(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    optimizer.zero_grad()
    model(torch.randn(4, 2, 6)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "param, words",
    [("zero_mean", "weights that are no longer in the network"), ("layer", "the means .* but none of what else")],
)
def test_an_optimizer_that_was_made_before_says_what_it_does_not_train(param, words):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    variational(model, param=param)
    with pytest.warns(UserWarning, match=f"the optimizer trains {words}.*make it after varnet.variational") as told:
        step(optimizer, model)
        step(optimizer, model)  # by which all optimizers of a network are known
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(optimizer, model)  # it is said once
        step(torch.optim.SGD(model.parameters(), lr=0.1), model)


def test_an_optimizer_for_the_means_and_one_for_the_noise_are_no_mistake():
    model = variational(network())
    noise, rest = (
        [p for name, p in model.named_parameters() if ("log_alpha" in name) is wanted] for wanted in (True, False)
    )
    optimizers = [torch.optim.SGD(rest, lr=0.1), torch.optim.Adam(noise)]
    for _ in range(2):
        for optimizer in optimizers:
            step(optimizer, model)


def test_an_optimizer_of_a_layer_that_lost_its_means():
    model = variational(network(), log_alpha=9.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step(optimizer, model)
    collapse(model)
    with pytest.warns(UserWarning, match="weights that are no longer in the network"):
        step(optimizer, model)


def test_noise_that_is_fixed_on_purpose_is_no_mistake():
    model = variational(network())
    means = [p for name, p in model.named_parameters() if "log_alpha" not in name]
    for name, p in model.named_parameters():
        p.requires_grad_("log_alpha" not in name)
    step(torch.optim.SGD(means, lr=0.1), model)
