"""What is said about the machine. Which devices there are is tested with the configuration (test_configs.py)."""

import pytest
import torch

from tests.composing import tiny
from varnet.base import device
from varnet.cli.train import run

CPU = torch.device("cpu")


def machine(monkeypatch, **instructions: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, **instructions}, raising=False)


@pytest.mark.parametrize("instructions", [{}, {"avx512_bf16": False, "amx_bf16": False}])
def test_bf16_without_instructions_for_it_is_warned_of(monkeypatch, instructions):
    machine(monkeypatch, **instructions)
    assert "precision=bf16" in device.caution(CPU, "bf16")
    assert device.caution(CPU, "fp32") is None
    assert device.caution(torch.device("cuda"), "bf16") is None


@pytest.mark.parametrize("name", device.BFLOAT16)
def test_bf16_with_instructions_for_it_is_fine(monkeypatch, name):
    machine(monkeypatch, **{name: True})
    assert device.caution(CPU, "bf16") is None


def test_a_torch_that_cannot_tell_is_not_warned_of(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert device.caution(CPU, "bf16") is None


@pytest.mark.usefixtures("unpictured")
def test_a_run_warns_and_goes_on(monkeypatch, tmp_path, caplog):
    machine(monkeypatch)
    assert run(tiny(tmp_path, "precision=bf16", "schedule.epochs=1"))["epochs"] == 1
    assert caplog.text.count("no bfloat16 instructions") == 1
