"""Exploration by parameter noise (section 6.2, Figure 6): REINFORCE with one draw of the weights per episode.

python scripts/rl.py policy=variance env=cartpole seed=0        one run
python scripts/rl.py policy=variance env=cartpole 'seed=range(9)' -m    nine runs, as many at a time as there are cores
python scripts/rl.py -m policy=deterministic,parameter_noise,variance env=cartpole,acrobot 'seed=range(9)'
python scripts/rl.py resume=FOLDER                              go on with an interrupted run
python scripts/rl.py render=FOLDER                              an episode of its policy as FOLDER/policy.gif

Sweeps: Hydra's own launcher runs one job after the other, so this script expands -m itself (the same syntax: lists,
range(), choice()) and gives every run a process and one thread; jobs=N says how many at a time. A run that fails does
not stop the others, and the same command runs only what is missing. figure6.png and fig6.json, of all runs in out_dir
that go together, then stand there.
With hydra/launcher=... (e.g. joblib, submitit_slurm) the sweep is left to that launcher.
"""

import logging
import sys
import zlib
from pathlib import Path

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from varnet.base.files import write_atomically
from varnet.base.plots import rendered
from varnet.base.terminal import tolerate
from varnet.errors import CheckpointError, ConfigError, Interrupted
from varnet.launch.command import alone, by_hydra, flags_first, in_out_dir, named_folder
from varnet.launch.ending import stop, stopped_in_a_sentence
from varnet.paper import scores
from varnet.paper.fig6 import chart_of
from varnet.report.row import as_json
from varnet.rl import render
from varnet.rl.grid import composed, grid
from varnet.rl.run import REINFORCE, make_env
from varnet.rl.sweep import sweep as run_sweep
from varnet.runs import life
from varnet.runs.composing import RL_CONFIGS
from varnet.runs.folder import RL, folder_of
from varnet.runs.overrides import said
from varnet.runs.resuming import resumed

SWEEP = ("-m", "--multirun")


def attempt(cfg: DictConfig, folder: Path | None = None) -> float:
    """run, with every foreseeable failure said in one sentence, and its score shown."""
    folder = folder or folder_of(cfg)
    metrics = stopped_in_a_sentence(lambda: life.attempt(REINFORCE, cfg, folder))
    print(f"score {metrics['score']:.1f} (mean of the last {metrics['window']} evaluations)\nrun folder: {folder}")
    return metrics["score"]


def sweep(configs: list[DictConfig]) -> None:
    """Every configuration in a process of its own; then the figure."""
    try:
        folders, failed = run_sweep(configs, configs[0].jobs)
    except Interrupted as error:
        stop(f"{error}; what was saved is kept, and the same command goes on", error.exit_code)
    for out_dir in dict.fromkeys(cfg.out_dir for cfg in configs):
        if own := [folder for folder in folders if folder.is_relative_to(out_dir)]:
            summarise(own, Path(out_dir))
    if failed:
        stop(f"{len(failed)} of {len(configs)} runs failed ({failed[0]}); the same command runs what is missing", 1)


def summarise(folders: list[Path], out_dir: Path) -> None:
    """Figure 6 of all finished runs in out_dir. Where these do not go together it is that of this sweep, in files with
    a mark in their names: a trial does not replace the figure of earlier runs."""
    together, mark = scores.find(out_dir), ""
    try:
        scores.collect(together)
    except ConfigError:
        together, mark = folders, f"-{zlib.crc32(' '.join(sorted(map(str, folders))).encode()):08x}"
    try:
        rows, chart = scores.results(together), chart_of(together)
    except ConfigError as error:  # a sweep over something else than seeds
        print(f"no figure: {error}")
        return
    picture = out_dir / f"figure6{mark}.png"
    write_atomically(out_dir / f"fig6{mark}.json", as_json(rows))
    write_atomically(picture, rendered(chart))
    for row in rows:
        spread = "" if row.std is None else f" +- {row.std:.1f}"
        print(f"{row.row:<40}{row.mean:8.1f}{spread}  (n = {row.n})")
    print(f"figure: {picture}")


@hydra.main(version_base="1.3", config_path=str(RL_CONFIGS), config_name="rl")
def main(cfg: DictConfig) -> float:
    return attempt(cfg)


def command_line(arguments: list[str]) -> None:
    """Run the command: what Hydra would report over many lines is said in one; resume= and render= bypass
    composition."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    tolerate()
    sys.argv[1:] = arguments = flags_first(arguments)
    overrides = [a for a in arguments if not a.startswith("-")]
    flags = [a for a in arguments if a.startswith("-")]
    try:
        in_out_dir(overrides)
        shown, beside = named_folder(overrides, "render")
        folder, others = named_folder(overrides, "resume")
        if shown:
            alone(shown, "render", flags + beside)
            print("policy: {}\nscore of the episode: {:.0f}".format(*render.gif(shown)))
        elif folder:
            alone(folder, "resume", flags)
            with said(overrides, "rl"):
                cfg = resumed(folder, others, RL)
            attempt(cfg, folder)
        elif flags and set(flags) <= set(SWEEP) and not any(o.startswith("hydra/launcher") for o in overrides):
            configs = grid(overrides)
            make_env(configs[0]).close()  # a missing package is said once, not by every run
            sweep(configs)
        else:
            if not flags:
                composed(overrides)
            by_hydra(main, overrides, "rl")
    except (ValueError, CheckpointError, OmegaConfBaseException) as error:  # a ConfigError is a ValueError
        stop(error, 2)
    except OSError as error:
        stop(f"{error.strerror or error} ({error.filename}): put it right and start again", 4)
