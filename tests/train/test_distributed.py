"""Several processes, one run: the same network as one process gives, and an end that all of them notice."""

import copy
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.composing import ROOT, composed, tiny
from tests.processes import output_of, wait_for
from tests.statistics_helper import assert_same_mean
from tests.train import two_ranks
from varnet.base import distributed
from varnet.cli.train import run
from varnet.runs.folder import folder_of
from varnet.train import batch_norm, checkpoint


@pytest.mark.parametrize("affine", [True, False])
def test_our_batch_norm_is_torchs_for_one_process(affine):
    theirs = nn.BatchNorm2d(3, affine=affine)
    ours = batch_norm._adopted(copy.deepcopy(theirs))
    x = torch.randn(8, 3, 5, 5) * 3 + 1
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> tuple[dict, dict, Path]:
    folder = tmp_path_factory.mktemp("ranks")
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)  # has its port for good
    torch.multiprocessing.spawn(two_ranks.work, (store.port, folder), nprocs=2)
    return *(torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in (0, 1)), folder


def test_batch_norm_is_that_of_the_whole_batch(ranks):
    first, second, _ = ranks
    net, x = nn.Sequential(nn.BatchNorm2d(3)).double(), two_ranks.batch().requires_grad_()
    out = net(x)
    (out.sin() * torch.tensor([1.0] * 2 + [2.0] * 5)[:, None, None, None]).sum().backward()
    for key, mine in (("out", out), ("x", x.grad)):
        torch.testing.assert_close(torch.cat([first["norm"][key], second["norm"][key]]), mine.detach())
    torch.testing.assert_close(first["norm"]["parameters"], torch.stack([net[0].weight.grad, net[0].bias.grad]))
    for rank in (first, second):
        for key, value in net.state_dict().items():
            torch.testing.assert_close(rank["norm"]["state"][key], value)
    torch.testing.assert_close(first["norm"]["kept"], net.eval()(two_ranks.batch()))


def test_a_deterministic_network_is_that_of_one_process(ranks, tmp_path):
    first, second, folder = ranks
    cfg = tiny(tmp_path, *two_ranks.DETERMINISTIC)
    alone = run(cfg)
    assert second["metrics"] == {} and first["metrics"]["machine"]["processes"] == 2
    for key in ("elbo", "data_term", "nll_det"):
        assert first["metrics"][key] == pytest.approx(alone[key], rel=1e-4)
    both = folder_of(tiny(folder / "two", *two_ranks.DETERMINISTIC))
    mine, theirs = (checkpoint.load(f)["model"] for f in (folder_of(cfg), both))
    for key in mine:
        torch.testing.assert_close(theirs[key], mine[key], rtol=1e-3, atol=1e-4)


def test_a_variational_networks_gradient_is_that_of_one_process_in_expectation(ranks, tmp_path):
    first, second, _ = ranks
    assert torch.equal(first["gradients"], second["gradients"])  # summed: the same bits on both
    alone = two_ranks.gradients(tmp_path)
    assert alone.std(0).max() > 0
    assert_same_mean(first["gradients"], alone)


def test_noise_differs_between_ranks_and_follows_from_the_seed(ranks):
    (a, b), again = ranks[0]["noise"]
    assert not torch.equal(a, b) and torch.equal(a, again[0]) and torch.equal(b, again[1])
    assert len({distributed.noise_seed(seed, rank) for seed in range(50) for rank in range(50)}) == 2500


def test_what_one_rank_knows_all_know(ranks):
    for rank in ranks[:2]:
        assert rank["told"] == ["made by 0", [1, 5], "only the first can know"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="tells by /proc whether a process is stopped")
def test_a_rank_that_is_stopped_is_named_and_waited_for(ranks):
    said = ranks[0]["silence"]
    assert said[0].startswith("rank 1 is silent for 0 s: the others wait for up to 20 min more (patience_minutes)")


def test_a_loader_takes_its_rank_from_torch_distributed(ranks):
    steps = zip(*(rank["batches"] for rank in ranks[:2]), strict=True)
    joined = [tuple(torch.cat(pieces) for pieces in zip(*step, strict=True)) for step in steps]
    for mine, alone in zip(joined, two_ranks.loader(), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, alone, strict=True))


def test_one_process_is_not_distributed(monkeypatch):
    monkeypatch.setattr(os, "environ", {"WORLD_SIZE": "2"})  # not all that torchrun sets
    assert not distributed.launched() and distributed.rank() == 0 and distributed.world_size() == 1
    assert distributed.from_first(lambda: 3) == distributed.after_first(lambda: 3) == 3
    assert distributed.largest(4, True) == [4, 1] and distributed.gathered("x") == ["x"]


# ---- torchrun

OPTIONS = (
    "model=lenet5", "model.width=0.1", "dataset=digits", "dataset.train_size=400", "dataset.test_size=20",
    "schedule.batch_size=100", "eval.samples=2", "eval.elbo_samples=1", "eval.every=100", "checkpoint_every=1",
    "threads=1", "schedule.epochs=200",
)  # fmt: skip


def torchrun(*arguments: str, restarts: int = 0) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--rdzv-backend=c10d"]
    command += ["--rdzv-endpoint=localhost:0", f"--rdzv-id={uuid.uuid4()}"]
    return subprocess.Popen(
        [*command, f"--max-restarts={restarts}", str(ROOT / "train.py"), *arguments], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finished(process: subprocess.Popen) -> str:
    output = output_of(process)
    assert process.returncode == 0, output
    return output


def ranks_of(launcher: subprocess.Popen) -> dict[int, int]:
    """Rank -> process, of the children of torchrun."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            environment = (path.parent / "environ").read_bytes()
        except OSError:
            continue
        if parent == launcher.pid and (rank := re.search(rb"\0RANK=(\d+)\0", environment)):
            found[int(rank[1])] = int(path.parent.name)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    output = finished(torchrun(*OPTIONS, f"out_dir={folder}"))
    assert output.count("run folder:") == 1 and output.count("epoch 100/200") == 1
    return folder_of(composed(*OPTIONS, f"out_dir={folder}"))


@pytest.mark.slow
@pytest.mark.parametrize("victim, number", [(1, signal.SIGKILL), (0, signal.SIGKILL), (None, signal.SIGTERM)])
def test_the_end_of_one_rank_ends_all_and_the_same_command_goes_on(whole, victim, number, tmp_path):
    folder = folder_of(composed(*OPTIONS, f"out_dir={tmp_path}"))
    process = torchrun(*OPTIONS, f"out_dir={tmp_path}")
    wait_for((folder / "checkpoint.pt").exists, process)
    os.kill(process.pid if victim is None else ranks_of(process)[victim], number)
    output = output_of(process)
    assert process.returncode != 0 and not (folder / "metrics.json").exists()
    if victim is None:
        assert "stopped by SIGTERM; saved" in output
    else:
        assert "error: another process of this run ended" in output and "go on with the same command" in output
    finished(torchrun(*OPTIONS, f"out_dir={tmp_path}"))
    for key, tensor in checkpoint.load(whole)["model"].items():
        assert torch.equal(checkpoint.load(folder)["model"][key], tensor), key


@pytest.mark.slow
def test_torchrun_starts_the_run_again(whole, tmp_path):
    folder = folder_of(composed(*OPTIONS, f"out_dir={tmp_path}"))
    process = torchrun(*OPTIONS, f"out_dir={tmp_path}", restarts=1)
    wait_for((folder / "checkpoint.pt").exists, process)
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    assert "going on after epoch" in finished(process)
    for key, tensor in checkpoint.load(whole)["model"].items():
        assert torch.equal(checkpoint.load(folder)["model"][key], tensor), key


@pytest.mark.slow
def test_errors_are_said_once_and_a_sweep_is_refused(tmp_path):
    process = torchrun(*OPTIONS, f"out_dir={tmp_path}", "param.layers=[conv9]")
    output = output_of(process)
    assert process.returncode != 0 and output.count("error: param.layers: there is no layer 'conv9'") >= 1
    process = torchrun("-m", *OPTIONS, f"out_dir={tmp_path}", "seed=0,1")
    output = output_of(process)
    assert process.returncode != 0 and output.count("error: -m does not go with torchrun") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    options = (*OPTIONS, f"out_dir={tmp_path}")
    folder = folder_of(composed(*options))
    process = torchrun(*options)
    wait_for((folder / "checkpoint.pt").exists, process)
    process.send_signal(signal.SIGTERM)
    output_of(process)
    before = checkpoint.load(folder)
    assert len(before["ranks"]) == 2 and before["epoch"] < 200
    metrics = run(composed(*options))
    assert metrics["epochs"] == 200 and len(checkpoint.load(folder)["ranks"]) == 1
