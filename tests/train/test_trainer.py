"""Runs of shrunken real configs: what they leave, that they learn, and that nothing stops them for good."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.composing import ROOT, composed, tiny
from tests.conftest import no_pictures
from tests.processes import HANG, output_of, wait_for
from tests.train.stopping import interrupted_at
from varnet.base import plots
from varnet.base.files import write_atomically
from varnet.cli import train
from varnet.cli.train import run
from varnet.errors import CheckpointError, ConfigError, Diverged, Interrupted
from varnet.launch.ending import stopped_in_a_sentence
from varnet.runs.folder import RL, folder_of
from varnet.runs.resuming import resumed
from varnet.train import checkpoint, trainer


@pytest.fixture(autouse=True)
def picture(request):
    if request.function is not test_what_a_run_leaves:
        request.getfixturevalue("unpictured")


def small(folder: Path, *overrides: str):
    return tiny(folder, "schedule.epochs=4", "checkpoint_every=1", *overrides)


def weights(folder: Path) -> dict:
    return checkpoint.read(folder / checkpoint.NAME)["model"]


def assert_equal_runs(a: Path, b: Path) -> None:
    """Bit for bit, but for the time they took."""
    for key, tensor in weights(a).items():
        assert torch.equal(tensor, weights(b)[key]), key
    timing = ("seconds", "images_per_second")
    for name in ("history.jsonl",):
        rows = [[json.loads(line) for line in (f / name).read_text().splitlines()] for f in (a, b)]
        assert [{k: v for k, v in r.items() if k not in timing} for r in rows[0]] == [
            {k: v for k, v in r.items() if k not in timing} for r in rows[1]
        ]


def test_what_a_run_leaves(tmp_path):
    cfg = small(tmp_path)
    metrics = run(cfg)
    folder = folder_of(cfg)
    for name in (".hydra/config.yaml", "metrics.json", "history.jsonl", "checkpoint.pt", "phase_transition.png"):
        assert (folder / name).stat().st_size > 0
    assert list(folder.glob("events.out.tfevents.*")) and not list(folder.glob("*.part"))
    saved = json.loads((folder / "metrics.json").read_text())
    assert saved == metrics
    for key in ("acc_det", "acc_1", "acc_k", "acc_zero_mean_k", "nll_det", "nll_1", "nll_k", "nll_zero_mean_k",
                "acc_1_weights"):  # fmt: skip
        assert isinstance(saved[key], float)
    assert saved["elbo"] == pytest.approx(saved["data_term"] - saved["kl"])
    assert saved["data_term"] < 0 < saved["kl"] and saved["seed"] == 0 and saved["seconds"] > 0
    assert not (folder / "checkpoint.pt.new").exists()
    assert set(saved["log_alpha"]) == {"dense1"} and "torch" in saved["versions"] and "commit" in saved
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert all(row["elbo"] == pytest.approx(row["data_term"] - row["kl"]) for row in rows)


@pytest.mark.parametrize("layers", [0, 1, 17])
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_picture_of_a_history(layers, epochs):
    """Layers appear late (a layer that was converted), deterministic networks have no zero-mean accuracy."""
    rows = [
        {
            "epoch": epoch + 1, "acc_det": 90.0, "acc_1": 91.0, "acc_k": 92.0,
            "acc_zero_mean_k": 11.0 if layers else None,
            "log_alpha": {f"l{i}": {"mean": i, "min": i - 1, "max": i + 1} for i in range(layers) if i <= epoch + 9},
        }
        for epoch in range(epochs)
    ]  # fmt: skip
    unevaluated = {"epoch": epochs + 1, "log_alpha": {}}
    picture = plots.phase_transition([*rows, unevaluated], 20, "title", 10)
    assert [len(axis.lines) for axis in picture.axes] == ([5, min(layers, epochs + 9)] if layers else [4])
    assert picture.axes[0].lines[0].get_ydata().tolist() == [90.0] * epochs
    assert plots.rendered(picture).startswith(b"\x89PNG")


def test_tensorboard_events(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cfg = small(tmp_path, "param=neuron")
    run(cfg)
    events = EventAccumulator(str(folder_of(cfg)))
    events.Reload()
    tags = events.Tags()
    expected = {
        "test/acc_det", "test/acc_1", "test/acc_k", "test/acc_zero_mean_k", "test/nll_k", "train/elbo", "train/kl",
        "train/data_term", "train/train_acc", "kl/dense1", "log_alpha/dense1", "log_alpha_min/dense1",
        "log_alpha_max/dense1", "schedule/lr", "schedule/beta", "speed/images_per_second",
    }  # fmt: skip
    assert expected <= set(tags["scalars"])
    assert tags["images"] == ["phase_transition"] and tags["histograms"] == ["log_alpha_histogram/dense1"]
    assert [e.step for e in events.Scalars("test/acc_k")] == [2, 4, 6, 8]
    plugins = events.PluginTagToContent("hparams") | events.PluginTagToContent("custom_scalars")
    assert any("hparams" in tag for tag in plugins) and any("custom_scalars" in tag for tag in plugins)


@pytest.mark.parametrize("step", [1, 5])
def test_tensorboard_has_every_epoch_once_after_a_resume(tmp_path, monkeypatch, step):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    cfg = small(tmp_path, "checkpoint_every=2")

    def crash(_):
        raise KeyError

    with monkeypatch.context() as patch:
        interrupted_at(step, patch, crash)
        with pytest.raises(KeyError):
            run(cfg)
    run(cfg)
    events = EventAccumulator(str(folder_of(cfg)))
    events.Reload()
    assert [e.step for e in events.Scalars("train/elbo")] == [2, 4, 6, 8]


def test_a_damaged_metrics_file_is_made_anew(tmp_path):
    cfg = small(tmp_path)
    metrics = run(cfg)
    (folder_of(cfg) / "metrics.json").write_text("")
    again = run(cfg)
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in metrics.items() if k != "seconds"}


def test_the_commit_is_that_of_the_start(tmp_path, monkeypatch):
    checkout = {"commit": "old"}
    monkeypatch.setattr("varnet.runs.provenance.commit", lambda: checkout["commit"])
    fit = trainer.Trainer.fit

    def pulled_meanwhile(self):
        checkout["commit"] = "new"
        return fit(self)

    monkeypatch.setattr(trainer.Trainer, "fit", pulled_meanwhile)
    assert run(small(tmp_path))["commit"] == "old"


def test_evaluation_every_few_epochs_and_always_at_the_end(tmp_path):
    cfg = small(tmp_path, "schedule.epochs=5", "eval.every=2")
    run(cfg)
    rows = [json.loads(line) for line in (folder_of(cfg) / "history.jsonl").read_text().splitlines()]
    assert ["acc_k" in row for row in rows] == [False, True, False, True, True]


def test_same_seed_same_metrics_and_evaluation_does_not_matter(tmp_path):
    runs = [small(tmp_path / name, *more) for name, more in (("a", ()), ("b", ()), ("c", ("eval.every=3",)))]
    metrics = [run(cfg) for cfg in runs]
    same = [k for k in metrics[0] if k not in ("seconds",)]
    assert {k: metrics[0][k] for k in same} == {k: metrics[1][k] for k in same}
    assert metrics[0]["acc_k"] == metrics[2]["acc_k"] and metrics[0]["elbo"] == metrics[2]["elbo"]
    other = run(small(tmp_path / "d", "seed=1"))
    assert other["elbo"] != metrics[0]["elbo"]


def test_a_tiny_subset_is_overfitted(tmp_path):
    metrics = run(tiny(tmp_path, "model.width=0.5", "schedule.epochs=60", "schedule.lr=0.003", "eval.every=60"))
    assert metrics["data_term"] / 40 > -0.05
    memorised = run(
        tiny(tmp_path, "model=fc", "model.width=0.2", "param=zero_mean", "dataset.labels=random", "schedule.epochs=300",
             "schedule.lr=0.003", "eval.every=300", "param.layers=[dense2]")
    )  # fmt: skip
    assert memorised["data_term"] / 40 > -0.5


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    cfg = small(tmp_path)
    metrics = run(cfg)
    monkeypatch.setattr(trainer.Trainer, "fit", lambda _: pytest.fail("ran again"))
    assert run(cfg) == metrics


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision(tmp_path, precision):
    metrics = run(tiny(tmp_path, f"precision={precision}", "schedule.epochs=3"))
    assert math.isfinite(metrics["elbo"])


def test_deterministic_algorithms_and_channels_last(tmp_path):
    try:
        metrics = [run(tiny(tmp_path, "deterministic=true", f"channels_last={c}")) for c in ("true", "false")]
    finally:
        torch.use_deterministic_algorithms(False)
    assert metrics[0]["elbo"] == pytest.approx(metrics[1]["elbo"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled(tmp_path):
    assert math.isfinite(run(tiny(tmp_path, "compile=true", "schedule.epochs=2"))["elbo"])


def test_log_alpha_has_its_own_group(tmp_path):
    cfg = small(tmp_path, "schedule.log_alpha.lr_mult=20", "schedule.log_alpha.beta2=0.9", "schedule.decay=constant")
    moved = run(cfg)["log_alpha"]["dense1"] + 5.0
    plain = run(small(tmp_path, "schedule.decay=constant"))["log_alpha"]["dense1"] + 5.0
    assert moved == pytest.approx(8 * 20 * 1e-3, rel=0.05) and plain == pytest.approx(8e-3, rel=0.05)


def test_l2_shrinks_the_weights(tmp_path):
    norms = []
    for l2 in ("0.0", "10.0"):
        cfg = tiny(
            tmp_path, "param=dropout", f"param.l2={l2}", "schedule.epochs=30", "eval.every=30", "schedule.lr=0.01"
        )
        run(cfg)
        norms.append(weights(folder_of(cfg))["dense1.weight"].norm())
    assert norms[1] < 0.7 * norms[0]


def test_init_from(tmp_path):
    pretrained = tiny(tmp_path, "param=deterministic", "schedule.epochs=20", "eval.every=20", "schedule.lr=0.01")
    run(pretrained)
    cfg = tiny(tmp_path, "param=weight", f"init_from={folder_of(pretrained)}", "schedule.lr=1e-9")
    run(cfg)
    torch.testing.assert_close(weights(folder_of(cfg))["dense1.mu"], weights(folder_of(pretrained))["dense1.weight"])
    for overrides, key, expected in (  # noise that the source does not have starts as that of its weights
        (("param=additive",), "dense1.log_sigma2", lambda w: w.square().log() - 5),
        (("param=zero_mean", "param.learn=log_sigma"), "dense1.log_sigma", lambda w: w.abs().log()),
    ):
        cfg = tiny(tmp_path, *overrides, f"init_from={folder_of(pretrained)}", "schedule.lr=1e-9", "seed=5")
        run(cfg)
        source = weights(folder_of(pretrained))["dense1.weight"]
        torch.testing.assert_close(weights(folder_of(cfg))[key], expected(source), rtol=1e-4, atol=1e-4)
    with pytest.raises(ConfigError, match=r"conv1.weight is \(1, .* there, \(2, .* here"):
        run(tiny(tmp_path, "model.width=0.1", f"init_from={folder_of(pretrained)}"))


# ---- survival


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run that nothing stops, for those that must end as it does."""
    cfg = small(tmp_path_factory.mktemp("whole"))
    with no_pictures():
        run(cfg)
    return folder_of(cfg)


@pytest.mark.parametrize("step", [1, 3, 4, 7])
def test_a_signal_saves_and_resuming_is_bit_for_bit(tmp_path, monkeypatch, whole, step):
    cut = small(tmp_path)
    with monkeypatch.context() as patch:
        interrupted_at(step, patch, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(Interrupted) as caught:
            run(cut)
    assert caught.value.exit_code == 143
    assert checkpoint.load(folder_of(cut))["step"] == step
    run(resumed(folder_of(cut), []), folder_of(cut))
    assert_equal_runs(whole, folder_of(cut))


def test_a_crash_between_checkpoints_is_harmless(tmp_path, monkeypatch, whole):
    cut = small(tmp_path, "checkpoint_every=2")

    def crash(_):
        raise KeyError

    with monkeypatch.context() as patch:
        interrupted_at(7, patch, crash)
        with pytest.raises(KeyError):
            run(cut)
    assert checkpoint.load(folder_of(cut))["epoch"] == 2
    run(cut)
    assert_equal_runs(whole, folder_of(cut))


def test_a_corrupt_checkpoint_falls_back_and_says_so(tmp_path, monkeypatch, whole, caplog):
    cut = small(tmp_path)
    with monkeypatch.context() as patch:
        interrupted_at(7, patch, lambda _: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(Interrupted):
            run(cut)
    folder = folder_of(cut)
    content = bytearray((folder / "checkpoint.pt").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (folder / "checkpoint.pt").write_bytes(content)
    run(cut)
    assert "checkpoint.pt cannot be read" in caplog.text and "the one before it is used" in caplog.text
    assert (folder / "checkpoint.pt.damaged").exists() and checkpoint.read(folder / "checkpoint.previous.pt")
    assert_equal_runs(whole, folder)


def test_a_crash_between_the_renames_of_a_checkpoint(tmp_path):
    state = {"model": {}, "config": {}, "step": 1}
    checkpoint.save(tmp_path, state)
    checkpoint.save(tmp_path, state | {"step": 2})
    os.replace(tmp_path / checkpoint.NAME, tmp_path / checkpoint.FRESH)
    assert checkpoint.exists(tmp_path) and checkpoint.load(tmp_path)["step"] == 2
    (tmp_path / checkpoint.FRESH).write_bytes(b"junk")
    assert checkpoint.load(tmp_path)["step"] == 1
    assert (tmp_path / checkpoint.FRESH).exists()  # only the run that owns the folder touches its files


def test_checkpoints_by_the_clock(tmp_path, monkeypatch):
    cfg = small(tmp_path, "checkpoint_every=100", "checkpoint_minutes=1e-9")
    steps, original = [], checkpoint.save
    monkeypatch.setattr(
        checkpoint, "save", lambda folder, state: (steps.append(state["step"]), original(folder, state))
    )
    run(cfg)
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8, 8]


def test_no_readable_checkpoint_is_an_error(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (checkpoint.NAME, checkpoint.PREVIOUS):
        (folder / name).write_bytes(b"not a checkpoint")
    for _ in range(2):  # the second time too: the run is not begun anew in their place
        with pytest.raises(CheckpointError, match=r"point.pt cannot be read.*previous.pt cannot be read"):
            checkpoint.load(folder, put_aside=True)


def test_a_checkpoint_is_never_unpickled(tmp_path):
    torch.save({"model": Path("x")}, tmp_path / checkpoint.NAME)
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.load(tmp_path)


def test_resuming_with_another_config_is_refused(tmp_path, monkeypatch):
    cfg = small(tmp_path)
    interrupted_at(3, monkeypatch, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        run(cfg)
    folder = folder_of(cfg)
    with pytest.raises(ConfigError, match=r"schedule.lr=0.5 does not fit resume=.*which has schedule.lr=0.001"):
        resumed(folder, ["schedule.lr=0.5"])
    for strange in ("foo", "polcy.hiden=null", "=1"):
        with pytest.raises(ConfigError, match=f"{strange} is no key=value of the run in"):
            resumed(folder, [strange])
    for elsewhere in ("out_dir=x", "name=x"):
        with pytest.raises(ConfigError, match=f"{elsewhere} does not fit resume="):
            resumed(folder, [elsewhere])
    with pytest.raises(ConfigError, match=r"is a run of train.py: name the folder of a run of scripts/rl.py"):
        resumed(folder, [], RL)
    same = resumed(folder, ["schedule.lr=0.001", "threads=1", "param=layer", "eval.every=3"])
    assert same.threads == 1 and same.eval.every == 3
    text = (folder / ".hydra/config.yaml").read_text()
    (folder / ".hydra/config.yaml").write_text(text.replace("batch_size: 20", "batch_size: 10"))
    with pytest.raises(ConfigError, match=r"config.yaml that does not fit its checksum in checksums.json"):
        resumed(folder, [])
    (folder / "checksums.json").unlink()
    with pytest.raises(ConfigError, match=r"is not that of the run by whose digest, \w{8}, its folder is named"):
        resumed(folder, [])
    folder = folder.rename(tmp_path / "renamed")
    with pytest.raises(ConfigError, match=r"does not fit its checkpoint: schedule.batch_size=10 \(the run has 20\)"):
        run(resumed(folder, []), folder)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    cfg = small(tmp_path)

    def poison(self):
        self.model.conv2.weight.data[0, 0, 0, 0] = math.inf

    interrupted_at(5, monkeypatch, poison)
    with pytest.raises(Diverged, match=r"not finite at step 5 \(epoch 3\), .*conv2.*schedule.lr=0.001"):
        run(cfg)
    state = checkpoint.load(folder_of(cfg))
    assert state["epoch"] == 2 and all(torch.isfinite(t).all() for t in state["model"].values())


def test_a_layer_whose_output_overflows_is_named(tmp_path, monkeypatch):
    cfg = small(tmp_path)

    def poison(self):
        self.model.dense1.mu.data.fill_(1e30)

    interrupted_at(5, monkeypatch, poison)
    with pytest.raises(Diverged, match="in layer dense1"):
        run(cfg)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, whole):
    cfg = small(tmp_path)
    original, calls = write_atomically, []

    def full(path, content):
        if path.name.startswith("checkpoint"):
            calls.append(path)
            if len(calls) == 3:
                path.with_name(path.name + ".part").write_bytes(content[:100])
                path.with_name(path.name + ".part").unlink()
                raise OSError(28, "No space left on device", str(path))
        original(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            run(cfg)
    folder = folder_of(cfg)
    assert checkpoint.load(folder)["epoch"] == 2
    run(cfg)
    assert_equal_runs(whole, folder)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_two_processes_do_not_write_the_same_run(tmp_path, monkeypatch):
    cfg = small(tmp_path)

    def second(_):
        with pytest.raises(ConfigError, match="is being written by another process"):
            run(cfg)

    interrupted_at(3, monkeypatch, second)
    run(cfg)


# ---- the command itself

FAST = ("model=lenet300", "model.width=0.1", "dataset=digits", "dataset.test_size=20", "schedule.batch_size=100",
        "eval.samples=2", "eval.every=10", "checkpoint_every=1", "threads=1")  # fmt: skip


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


KILLED = """
import os, signal, sys
from varnet.cli.train import command_line
from varnet.train.trainer import Trainer

train_step = Trainer.train_step

def killed_at_step_17(self, x, y):
    train_step(self, x, y)
    if self.step == 17:
        os.kill(os.getpid(), signal.SIGKILL)

Trainer.train_step = killed_at_step_17
command_line(sys.argv[1:])
"""


def test_sigkill_and_resume_equals_uninterrupted(tmp_path, capsys, caplog):
    caplog.set_level("INFO")
    arguments = (*FAST, "dataset.train_size=200", "schedule.epochs=12")
    whole, cut = (composed(*arguments, f"out_dir={tmp_path / name}") for name in ("whole", "cut"))
    run(whole)
    folder = folder_of(cut)
    command = [sys.executable, "-c", KILLED, *arguments, f"out_dir={tmp_path / 'cut'}"]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert checkpoint.load(folder)["step"] == 16 and not (folder / "metrics.json").exists()
    train.attempt(resumed(folder, []), folder)
    assert "going on after epoch 8" in caplog.text and "1 samp." in capsys.readouterr().out
    assert_equal_runs(folder_of(whole), folder)


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_save_and_the_exit_code_tells(tmp_path, monkeypatch, capsys, number, code):
    cfg = small(tmp_path)
    interrupted_at(3, monkeypatch, lambda _: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as caught:
        stopped_in_a_sentence(lambda: train.attempt(cfg))
    assert caught.value.code == code and f"resume={folder_of(cfg)}" in capsys.readouterr().err
    assert checkpoint.load(folder_of(cfg))["step"] == 3


def test_a_process_that_is_told_to_end_saves(tmp_path):
    process = start(*FAST, "schedule.epochs=5000", f"out_dir={tmp_path}")
    wait_for(lambda: len(list(tmp_path.glob("*/*/checkpoint.pt"))) == 1, process)
    process.send_signal(signal.SIGTERM)
    output = output_of(process)
    assert process.returncode == 143 and f"resume={tmp_path}" in output.replace("\n", "")
    assert checkpoint.load(next(tmp_path.glob("*/*")))["step"] > 0


@pytest.mark.slow
def test_the_demo_shows_the_whole_transition(tmp_path):
    cfg = composed("experiment=demo", f"out_dir={tmp_path}")
    metrics = run(cfg)
    rows = [json.loads(line) for line in (folder_of(cfg) / "history.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "acc_k" in row]
    early = [row for row in rows if row["log_alpha"]["dense1"]["mean"] < 2]
    assert max(row["acc_zero_mean_k"] for row in early) < 15 and max(row["acc_det"] for row in early) > 95
    assert metrics["acc_zero_mean_k"] > 95 and metrics["acc_det"] < 15
    assert min(row["acc_k"] for row in rows) > 95
