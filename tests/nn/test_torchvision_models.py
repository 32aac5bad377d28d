"""Networks of torchvision: converted whole, predict what they did, train, and tell the truth about themselves."""

import pytest
import torch
import torchvision
from torch import nn

from varnet import inventory, kl, predicting, variational
from varnet.nn.layers import layers_of

models = torchvision.models
TINY = {  # name -> (network for images of 16x16 and three classes, how many tensors become random)
    "vit": (lambda: models.VisionTransformer(16, 8, 1, 2, 8, 16, num_classes=3), 6),
    "swin": (lambda: models.SwinTransformer([2, 2], 8, [1, 1], [1, 2], [2, 2], num_classes=3, dropout=0.0,
                                            stochastic_depth_prob=0.0), 11),
    "mobilenet_v3": (lambda: models.MobileNetV3(
        [models.mobilenetv3.InvertedResidualConfig(8, 3, 16, 8, True, "HS", 1, 1, 1.0)], 16, num_classes=3), 9),
}  # fmt: skip
REAL = ("resnet18", "vit_b_16", "mobilenet_v3_large", "swin_t")


@pytest.mark.parametrize("name", TINY)
def test_a_network_of_torchvision(name):
    make, count = TINY[name]
    model, x = make().eval(), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        before = model(x)
        variational(model, param="layer", log_alpha=-3.0, hold_dropout=True)
        with predicting(model, "deterministic"):
            assert torch.equal(model(x), before)
        assert not torch.equal(model(x), model(x))
        with predicting(model, "weights"):
            assert torch.equal(model(x), model(x))
    assert len(layers_of(model)) == count
    (model.train()(x).square().sum() + kl(model)).backward()
    assert all(layer.mu.grad is not None and layer.log_alpha.grad is not None for layer in layers_of(model).values())
    assert not any(row.weights for row in inventory(model) if "norm" not in row.why and not row.random)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_the_inventory_of_a_real_one(name):
    """Without its numbers: on the meta device."""
    with torch.device("meta"):
        model = getattr(models, name)()
        weights = {id(m.weight): m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)}
        weights |= {id(m.in_proj_weight): m.in_proj_weight.numel() for m in model.modules()
                    if isinstance(m, nn.MultiheadAttention)}  # fmt: skip
        total = sum(p.numel() for p in model.parameters())
        variational(model)
    assert len(layers_of(model)) == len(weights)
    report = inventory(model)
    assert sum(row.random for row in report) == sum(weights.values())
    assert sum(row.random + row.fixed for row in report) == total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v3_large", "swin_t"])
def test_a_real_one_predicts_exactly_what_it_did(name):
    model, x = getattr(models, name)(weights=None).eval(), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        before = model(x)
        variational(model)
        with predicting(model, "deterministic"):
            assert torch.equal(model(x), before)
        assert not torch.equal(model(x), before)
