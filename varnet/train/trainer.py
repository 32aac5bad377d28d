"""The one training loop: negative ELBO, one noise sample per step, checkpoints that make a kill harmless.

Nothing inside a step waits for the device: sums stay on it and are read once per epoch. A non-finite loss makes the
optimizer skip its update, so that the weights at fault can still be looked at when it is noticed.
"""

import contextlib
import logging
import math
import signal
import time
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from varnet.base import distributed, plots
from varnet.base.signals import STOPPING, Handlers, give_back, handled, preemption_signal
from varnet.data import Dataset, Loader
from varnet.errors import Diverged, Interrupted
from varnet.evaluation import predictions as evaluation
from varnet.evaluation.final import final
from varnet.evaluation.measuring import evaluated, fit_of
from varnet.nn.likelihoods import CATEGORICAL, Likelihood
from varnet.nn.objective import terms
from varnet.train import checkpoint, restoring
from varnet.train.batch_norm import pool_batch_norm
from varnet.train.faults import culprit
from varnet.train.logger import Logger, Progress, weights_summary
from varnet.train.optimizer import make_optimizer
from varnet.train.placing import IMAGES, laid_out, measured, placed, unsure, use_channels_last
from varnet.train.random_state import rng_state, set_rng_state
from varnet.train.schedule import SCHEDULED, Schedule

log = logging.getLogger("varnet")
KEPT = ("acc_", "nll_", "rmse_", "coverage_", "calibration_", "brier_", "ece_", "sparsity", "compression")
CHECK_EVERY = 50  # steps between two looks at whether the loss is finite
DRAW_AFTER = 10.0  # seconds of a run: a shorter one has one picture, at its end, and not ten that take longer than it


class Trainer:
    def __init__(
        self, cfg: DictConfig, model: nn.Module, data: Dataset, device: torch.device, folder: Path, identity: dict,
        likelihood: Likelihood = CATEGORICAL,
    ):  # fmt: skip
        """identity: what the checkpoints say that they are of."""
        self.likelihood = likelihood
        self.cfg, self.data, self.device, self.folder, self.identity = cfg, data, device, folder, identity
        self.channels_last = use_channels_last(cfg, device)
        self.model = placed(pool_batch_norm(model), cfg, device)
        self.forward = torch.compile(self.model) if cfg.compile else self.model
        self.rank, self.ranks = distributed.rank(), distributed.world_size()
        self.loader = self._training_loader()
        schedule = {k: v for k, v in cfg.schedule.items() if k in SCHEDULED and v is not None}
        self.schedule = Schedule(steps_per_epoch=len(self.loader), **schedule)
        self.optimizer = make_optimizer(self.model, cfg, len(data.train_y))
        # The loss is N times a mean: a scale of 65536 / N leaves the gradients where float16 wants them.
        scale = 65536.0 / len(data.train_y)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=scale, enabled=cfg.precision == "fp16")
        self.penalised = [p for n, p in self.model.named_parameters() if p.dim() > 1 and n.endswith("weight")]
        self.epoch = self.step = 0
        self.seconds = 0.0  # of training in this epoch
        self.sums = torch.zeros(3, device=device)  # over this epoch: data term, errors or hits, KL
        self.first_bad = torch.full((), math.inf, device=device)  # step at which the loss was not finite
        self.batch: Tensor | None = None  # the last inputs, to look for a fault with
        self.save_by = self._next_save()
        self.draw_from = time.monotonic() + DRAW_AFTER
        self.logger: Logger | None = None
        self.copy: Tensor | None = None  # of the history, in the checkpoint from which the run goes on
        self.last: dict = {}  # line of history
        self.signal: int | None = None

    def _loader(self, split: str, batch_size: int | None, **options):
        """Of the whole split, not of this rank's part, unless the options say so."""
        options = {"rank": 0, "world_size": 1, "channels_last": self.channels_last, **options}
        return self.data.loader(split, batch_size, device=self.device, **options)

    def _training_loader(self) -> Loader:
        part = {"rank": self.rank, "world_size": self.ranks}
        return self._loader("train", self.cfg.schedule.batch_size, seed=self.cfg.seed, **part)

    def _lay_out(self, channels_last: bool) -> None:
        """Change the memory format of the network and of its batches."""
        if channels_last == self.channels_last:
            return
        self.channels_last, state = channels_last, self.loader.state_dict()
        laid_out(self.model, channels_last)
        self.loader = self._training_loader()
        self.loader.load_state_dict(state)

    def _measure_layout(self) -> None:
        """Before the first step: a run that goes on keeps its format, and so its bits."""
        if self.step or not unsure(self.model, self.cfg, self.device):
            return
        x = torch.rand(min(IMAGES, len(self.data.train_y)), *self.data.in_shape)
        self._lay_out(
            distributed.from_first(lambda: measured(self.model.train(), x, self.channels_last, self._autocast))
        )

    # ---- one step

    def train_step(self, x: Tensor, y: Tensor) -> None:
        self.batch = x
        self._set_rates()
        self.optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            logits = self.forward(x)
        data_loss, divergence = terms(self.model, logits, y, self.likelihood)
        part = len(y) / self.loader.whole if self.ranks > 1 else 1  # of the batch: the ranks' losses are summed
        loss = len(self.data.train_y) * part * data_loss + self.schedule.beta_at(self.step) / self.ranks * divergence
        if self.cfg.param.l2:
            penalty = sum(p.square().sum() for p in self.penalised)
            loss = loss + len(self.data.train_y) * self.cfg.param.l2 / 2 / self.ranks * penalty
        loss = self._update(loss)
        with torch.no_grad():
            error = self.likelihood.error(logits, y)
            self.sums += torch.stack([data_loss * len(y), error, divergence * len(y)])
            self.first_bad = torch.where(torch.isfinite(loss), self.first_bad, self.first_bad.clamp_max(self.step))
        self.step += 1

    def _autocast(self) -> torch.autocast:
        dtype = torch.float16 if self.cfg.precision == "fp16" else torch.bfloat16
        return torch.autocast(self.device.type, dtype, enabled=self.cfg.precision != "fp32")

    def _set_rates(self) -> None:
        lr = self.schedule.lr_at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["lr_mult"]

    def _update(self, loss: Tensor) -> Tensor:
        """One step of the optimizer; returns the loss over all ranks."""
        self.scaler.scale(loss).backward()
        loss = distributed.sum_gradients(self.model.parameters(), loss.detach())
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
            return loss
        self.optimizer.grad_scale, self.optimizer.found_inf = None, (~torch.isfinite(loss)).float()
        self.optimizer.step()
        return loss

    # ---- the loop

    def fit(self) -> dict:
        """Train to the end and return the last line of history."""
        self._measure_layout()
        if self.rank == 0:
            self.logger = Logger(self.folder, self.epoch, self.step, self.copy, self.likelihood.measures()[0])
        with self._signals(), Progress(self.schedule.epochs, self.epoch) as progress:
            while self.epoch < self.schedule.epochs:
                self._run_epoch(progress)
        if number := distributed.largest(self.signal or 0)[0]:  # it came with the last evaluation; all is saved
            raise Interrupted(number)
        if self.rank > 0:
            return {}
        last = self.logger.last  # of a history that was damaged it may be an earlier epoch
        self.last = last if last.get("epoch") == self.epoch and "acc_k" in last else self._row()[0] | self.evaluate()
        return self.last

    def close(self) -> None:
        """Nothing: a file is open only while it is written."""

    @property
    def progress(self) -> str:
        return f"epoch {self.epoch}, step {self.step}"

    def metrics(self) -> dict:
        """The final numbers, which go into TensorBoard too."""
        metrics = {
            **{key: self.last[key] for key in self.last if key.startswith(KEPT)},
            **self._once(),
            **self.final_on_training_set(),
            "log_alpha": {name: values["mean"] for name, values in self.last["log_alpha"].items()},
            "name": str(self.cfg.name),
            "epochs": self.epoch,
            "samples": self.cfg.eval.samples,
            "seconds": self.logger.seconds,
        }
        self.logger.hyperparameters(OmegaConf.to_container(self.cfg, resolve=True), {**metrics, "seed": self.cfg.seed})
        return metrics

    def _run_epoch(self, progress: Progress) -> None:
        self.model.train()
        start = time.monotonic()
        for x, y in self.loader:  # after a resume, the rest of the epoch, which may be nothing
            self.train_step(x, y)
            if self.step % CHECK_EVERY == 0:
                self._check_finite()
            number, due = distributed.largest(self.signal or 0, time.monotonic() > self.save_by)
            if number or due:
                self.seconds, start = self.seconds + time.monotonic() - start, time.monotonic()
                self.save()
                if number:
                    raise Interrupted(number)
        self._end_epoch(time.monotonic() - start, progress)

    def _end_epoch(self, seconds: float, progress: Progress) -> None:
        self._check_finite()
        self.epoch += 1
        self.seconds += seconds
        last = self.epoch == self.schedule.epochs
        row, log_alphas = self._row()
        self.seconds = 0.0
        self.sums.zero_()
        distributed.from_first(lambda: self._report(row, log_alphas, last, progress))
        if last or self.epoch % self.cfg.checkpoint_every == 0:
            self.save()

    def _report(self, row: dict, log_alphas: dict[str, Tensor], last: bool, progress: Progress) -> None:
        if last or self.epoch % self.cfg.eval.every == 0:
            row |= self.evaluate(last)
        self.logger.epoch(row, log_alphas, self.step)
        tenth = self.epoch % max(1, self.schedule.epochs // 10) == 0
        if last or (tenth and time.monotonic() > self.draw_from):
            self.logger.figure(self.figure(), self.step)
        progress.update(row, self.schedule.epochs)
        if self.epoch in (self.cfg.get("snapshots") or ()):
            checkpoint.save_snapshot(self.folder, self.epoch, self.model.state_dict(), self.identity)

    def _row(self) -> tuple[dict, dict[str, Tensor]]:
        """The epoch's averages over its steps: one noise sample per object, weights as they were."""
        size = len(self.data.train_y)
        loss, error, divergence = (distributed.summed(self.sums.clone()).double().cpu() / size).tolist()
        summary, log_alphas = weights_summary(self.model)
        row = {
            "epoch": self.epoch, "step": self.step, "elbo": -size * loss - divergence, "data_term": -size * loss,
            "kl": divergence, **self.likelihood.watched(error), "lr": self.schedule.lr_at(self.step - 1),
            "beta": self.schedule.beta_at(self.step - 1), "seconds": self.seconds,
            "images_per_second": size / max(self.seconds, 1e-9), **summary,
        }  # fmt: skip
        return row, log_alphas

    def evaluate(self, last: bool = True) -> dict:
        """On the test set, unless that is kept for the last epoch, and under the same names with _val on the images
        held out, where there are any."""
        found = self._evaluate("test", self.data.test_y) if last or self.cfg.eval.get("test") != "end" else {}
        if self.data.validation_y is None:
            return found
        held_out = self._evaluate("validation", self.data.validation_y)
        return found | {f"{key}_val": value for key, value in held_out.items()}

    def _evaluate(self, split: str, labels: Tensor) -> dict:
        _, fold = evaluation.batch_size(self.device, self.cfg.eval.max_batch)
        seed = self.cfg.seed + 1000 * self.epoch
        batches = self._batches(split, labels)
        return evaluated(self.model, batches, self.cfg.eval.samples, seed, fold, self.likelihood)

    def _batches(self, split: str, labels: Tensor, **options: bool) -> Loader:
        """To be predicted, as many at once as the memory allows."""
        size, _ = evaluation.batch_size(self.device, self.cfg.eval.max_batch)
        return self._loader(split, min(size, len(labels)), **options)

    def _once(self) -> dict:
        """What is measured of classes when the training is over."""
        test = self._batches("test", self.data.test_y)
        return final(self.model, test, self.cfg.seed) if self.likelihood.classes else {}

    def final_on_training_set(self) -> dict:
        """Without augmentation: ELBO with several noise samples per object (Table 1's protocol), accuracy without."""
        batches = self._batches("train", self.data.train_y, shuffle=False, augment=False)
        more = self.cfg.eval.get("final_elbo_samples")
        samples = more or self.cfg.eval.elbo_samples
        return {
            **evaluation.elbo(self.model, batches, samples, self.cfg.seed, self.likelihood),
            **({"elbo_samples": more} if more else {}),
            **fit_of(self.model, batches, self.likelihood),
        }

    def figure(self) -> bytes:
        cfg = self.cfg
        title = ", ".join([cfg.dataset.name, cfg.model.name, cfg.param.name, cfg.prior.name, f"seed {cfg.seed}"])
        what = self.likelihood.measures()[0]
        figure = plots.phase_transition(self.logger.history, cfg.eval.samples, title, self.data.classes, what)
        return plots.rendered(figure)

    # ---- survival

    def save(self) -> None:
        self._check_finite()
        state = self.state_dict()
        distributed.from_first(lambda: self._write(state))
        self.save_by = self._next_save()

    def _write(self, state: dict) -> None:
        checkpoint.save(self.folder, state | {"history": self.logger.sync()})

    def _next_save(self) -> float:
        return time.monotonic() + 60 * (self.cfg.checkpoint_minutes or math.inf)

    def state_dict(self) -> dict:
        own = distributed.gathered({"rng": rng_state(), "sums": self.sums.cpu()})
        return {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(), "loader": self.loader.state_dict(), "ranks": own,
            "epoch": self.epoch, "step": self.step, "seconds": self.seconds, "config": self.identity,
            "channels_last": self.channels_last,
        }  # fmt: skip

    def load_state_dict(self, state: dict) -> None:
        restoring.check(state, self.model, self.optimizer, self.loader, self.schedule.epochs)
        self.copy = state.get("history")  # None: before checkpoints had it
        self._lay_out(state.get("channels_last", self.channels_last))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.loader.load_state_dict(state["loader"])
        self.epoch, self.step, self.seconds = (state[key] for key in ("epoch", "step", "seconds"))
        own = state.get("ranks") or [{"rng": state["rng"], "sums": state["sums"]}]  # before there were ranks
        if len(own) == self.ranks:
            self.sums = own[self.rank]["sums"].to(self.device)
            set_rng_state(own[self.rank]["rng"])
            return
        log.info("%s was run by %d processes and goes on with %d: with other noise", self.folder, len(own), self.ranks)
        self.sums = sum(each["sums"] for each in own).to(self.device) * (self.rank == 0)
        torch.manual_seed(distributed.noise_seed(self.cfg.seed, self.rank, self.step))

    def _signals(self) -> contextlib.AbstractContextManager:
        """SIGTERM and Ctrl-C are noted and acted on after the step; a second one acts at once. In a job of submitit its
        own signal comes when the job must end; SIGTERM may come too, and then the run is saved and goes on."""
        preempted = preemption_signal()

        def note(number: int, before: Handlers) -> None:
            if number == signal.SIGTERM and preempted:
                self.save_by = -math.inf
                return
            self.signal = number
            give_back(number, before)

        return handled(note, (*STOPPING, *([preempted] if preempted else [])))

    def _check_finite(self) -> None:
        step = float(self.first_bad)
        if math.isinf(step):
            return
        remedies = [f"lower schedule.lr={self.cfg.schedule.lr}"]
        if any(name.endswith("log_alpha") for name, _ in self.model.named_parameters()):
            remedies.append(f"schedule.log_alpha.lr_mult={self.cfg.schedule.log_alpha.lr_mult}")
        if self.cfg.precision != "fp32":
            remedies.append("use precision=fp32")
        kept = "the last good checkpoint is kept" if checkpoint.exists(self.folder) else "no checkpoint was written yet"
        raise Diverged(
            f"the loss is not finite at step {int(step)} (epoch {int(step) // len(self.loader) + 1}), "
            f"{culprit(self.model, self.batch, self._autocast)}: {' or '.join(remedies)}; {kept}"
        )
