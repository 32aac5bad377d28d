"""Models of timm and transformers, where they are installed (extra `zoo`)."""

import copy

import pytest
import torch

from varnet import inventory, kl, predicting, variational
from varnet.nn.layers import LinearTransposed, layers_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def test_a_network_of_timm():
    timm = pytest.importorskip("timm")
    model, x = timm.create_model("vit_tiny_patch16_224", num_classes=3).eval(), torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        before = model(x)
        variational(model)
        with predicting(model, "deterministic"):
            torch.testing.assert_close(model(x), before)
    assert not [row for row in inventory(model) if row.weights and not row.random and "norm" not in row.why]


def small_gpt2():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=8, n_layer=2, n_head=2)
    return transformers.GPT2LMHeadModel(config).eval()


def test_gpt2_is_random_in_every_layer_and_stays_tied():
    model, x = small_gpt2(), torch.randint(50, (2, 5))
    with torch.no_grad():
        before = model(x).logits
        variational(model, log_alpha=-3.0)
        with predicting(model, "deterministic"):
            torch.testing.assert_close(model(x).logits, before)
        assert not torch.equal(model(x).logits, model(x).logits)
    assert sum(isinstance(layer, LinearTransposed) for layer in layers_of(model).values()) == 8
    assert model.lm_head.mu is model.transformer.wte.mu
    model(x, labels=x).loss.backward()
    (kl(model)).backward()
    assert model.transformer.h[0].attn.c_attn.mu.grad is not None


def test_save_pretrained_of_a_tied_model(tmp_path):
    from safetensors.torch import load_file

    model = variational(small_gpt2(), log_alpha=-3.0)
    state = copy.deepcopy(model.state_dict())
    model.save_pretrained(tmp_path)
    written = load_file(tmp_path / "model.safetensors")
    twin = variational(small_gpt2(), log_alpha=-1.0)
    missing, unexpected = twin.load_state_dict(written, strict=False)
    assert not unexpected and all(name.startswith("lm_head.") for name in missing)
    assert all(torch.equal(tensor, state[name]) for name, tensor in twin.state_dict().items())
