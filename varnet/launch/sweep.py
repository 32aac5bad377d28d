"""A sweep: all jobs are composed and checked before the first one runs; the end says what is finished, what failed and
why, and how to go on. A run's folder is named by what the run is, so going on is the same command again.
"""

import contextlib
import importlib.util
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf

from varnet.base import invocation
from varnet.base.signals import Handlers, handled
from varnet.base.text import plain_text
from varnet.errors import ConfigError, JobFailed, one_line
from varnet.launch import ray_cluster
from varnet.launch.variants import Variants, loading
from varnet.runs import folder as runs
from varnet.runs.meaning import check_new


@dataclass
class Job:
    """One run of a sweep, planned or as it left its note."""

    overrides: list[str]
    folder: Path | None
    reason: str | None = None  # why it is not finished

    @property
    def finished(self) -> bool:
        return self.folder is not None and runs.finished(self.folder) is not None


@dataclass
class Sweep:
    """What is to be run, and by which launcher."""

    folder: Path  # of the sweep itself: notes of its jobs, logs of submitit
    launcher: str
    jobs: list[Job]  # none if the sweeper chooses them as it goes
    ray: str | None = None  # where the cluster is that a sweep by Ray uses


def plan(configs: Path, overrides: list[str]) -> Sweep:
    """The jobs of `python train.py -m OVERRIDES`, every one checked."""
    prefer(configs)
    with initialize_config_dir(str(configs), version_base="1.3"):
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        parsed = parser.parse_overrides(overrides)
        own = [o.input_line for o in parsed if o.is_hydra_override()]
        fixed = [o.input_line for o in parsed if not o.is_hydra_override() and not o.is_sweep_override()]
        hydra = compose("train", own + fixed, return_hydra_config=True).hydra
        for part in ("launcher", "sweeper"):
            _check_installed(part, hydra[part]._target_, own)
        params = OmegaConf.to_container(hydra.sweeper.get("params") or OmegaConf.create())
        swept = parser.parse_overrides([f"{key}={value}" for key, value in params.items()])
        swept += [o for o in parsed if not o.is_hydra_override()]
        basic = hydra.sweeper._target_.endswith("BasicSweeper")
        jobs = []
        variant = Variants(own)
        for chosen in _products(swept) if basic else _each_choice(swept):
            check_new(cfg := variant(chosen))
            jobs.append(Job(chosen, runs.folder_of(cfg)))
        return Sweep(Path(hydra.sweep.dir), hydra.launcher._target_, jobs if basic else [], _ray_of(hydra.launcher))


def _ray_of(launcher: DictConfig) -> str | None:
    return ray_cluster.resolved(OmegaConf.select(launcher, "ray.init.address")) if "ray" in launcher else None


def prefer(configs: Path) -> None:
    """Our launchers and sweepers, not the plugins' own configs of the same names, with which Hydra would mix them."""
    Plugins.instance()  # imports the plugins, which register their configs
    for path in (configs / "hydra").rglob("*.yaml"):
        registered = ConfigStore.instance().repo
        for part in path.relative_to(configs).parent.parts:
            registered = registered.get(part, {})
        registered.pop(path.name, None)


def _products(swept: list[Override]) -> list[list[str]]:
    return [job for batch in BasicSweeper.split_arguments(swept, None) for job in batch]


def _each_choice(swept: list[Override]) -> list[list[str]]:
    """Jobs for a sweeper that chooses values as it goes: every value of a list once, with the first of the others."""
    values = {o.get_key_element(): _values(o) for o in swept}
    first = {key: given[0] for key, given in values.items() if given}
    varied = [first | {key: value} for key, given in values.items() for value in given[1:]]
    return [list(one.values()) for one in [first, *varied]]


def _values(override: Override) -> list[str]:
    if override.is_discrete_sweep():
        return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
    return [] if override.is_sweep_override() else [override.input_line]


def _check_installed(part: str, target: str, given: list[str]) -> None:
    """Launchers and sweepers other than Hydra's own are plugins."""
    package = ".".join(target.split(".")[:2])
    try:
        found = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        name = next((o for o in given if o.startswith(f"hydra/{part}=")), f"hydra.{part}._target_={target}")
        raise ConfigError(f"{name} needs {package.split('.')[-1]}: pip install 'varnet[sweep]'")


def carry_out(sweep: Sweep, main: Callable[[], None], command: list[str]) -> int:
    """Run the jobs by Hydra's launcher and say how they ended; the exit code."""
    if sweep.jobs and all(job.finished for job in sweep.jobs):
        print(f"sweep: all {len(sweep.jobs)} runs are finished already")
        return 0
    sweep.folder.mkdir(parents=True, exist_ok=True)
    sys.argv.append("hydra.sweep.dir=" + quoted(sweep.folder))
    sys.argv += [f"++{ray_cluster.ADDRESS}={quoted(sweep.ray)}"] if sweep.ray else []
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here instead of being printed by Hydra
    code, trouble = 0, None
    ended: list[int] = []
    try:
        with _ending(ended), loading(), ray_cluster.secured(sweep.ray), _patient(sweep.launcher):
            main()
    except JobFailed:
        code = 1
    except KeyboardInterrupt:
        code = 130
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except Exception as error:  # a launcher that broke, e.g. because one of its processes was killed
        code, trouble = 1, f"{type(error).__name__}: {one_line(error)}"
    code = 128 + ended[0] if ended else code  # whatever a launcher has made of the exception in which it came
    summary = tell(sweep.jobs, notes(sweep.folder), trouble, command)
    print(
        "\n".join(map(plain_text, summary.text.split("\n"))),
        file=sys.stderr if summary.unfinished else sys.stdout,
        flush=True,
    )
    return code or int(summary.unfinished > 0)


def quoted(path: Path | str) -> str:
    """A path or an address as Hydra reads it back."""
    return "'" + str(path).replace("\\", "\\\\").replace("'", "\\'") + "'"


def notes(folder: Path) -> dict[int, Job]:
    """The notes that the jobs left, by their number."""
    found = {}
    for path in folder.glob("job*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            note = json.loads(path.read_text(encoding="utf-8"))
            where = note["folder"] and Path(note["folder"])
            found[int(path.stem.removeprefix("job"))] = Job(note["overrides"], where or None, note["reason"])
    return found


@dataclass
class Summary:
    """The end of a sweep in words, and how many runs are not finished."""

    text: str
    unfinished: int


def tell(planned: list[Job], noted: dict[int, Job], trouble: str | None, command: list[str]) -> Summary:
    """Say how a sweep ended: finished is what has its metrics, whatever was said meanwhile."""
    jobs = dict(enumerate(planned)) | noted
    left = {number: job for number, job in sorted(jobs.items()) if not job.finished}
    lines = [f"sweep: {len(jobs) - len(left)} of {len(jobs)} runs are finished"]
    lines += [f"  the launcher broke: {trouble}"] if trouble else []
    common = set.intersection(*(set(job.overrides) for job in jobs.values())) if len(jobs) > 1 else set()
    for number, job in left.items():
        swept = [o for o in job.overrides if o not in common]
        silent = "ended without a word: killed, or out of memory" if number in noted else "was not started"
        lines += [f"  #{number} {' '.join(swept)}: {job.reason or silent} ({job.folder})"]
    if left or trouble:
        how = "finished runs are skipped, interrupted ones go on" if planned else "it adds trials to the study"
        lines += [f"go on with the same command ({how}):"]
        lines += [f"  {invocation.command('train')} {shlex.join(command)}"]
    return Summary("\n".join(lines), len(left))


def _ending(ended: list[int]) -> contextlib.AbstractContextManager:
    """SIGTERM ends a sweep as Ctrl-C does, with its summary and without leaving processes behind; it is noted."""

    def end(number: int, _before: Handlers) -> None:
        ended.append(number)
        sys.exit(128 + number)

    return handled(end, (signal.SIGTERM,))


def _patient(launcher: str) -> contextlib.AbstractContextManager:
    """submitit's and Ray's launchers ask job after job for its result: one whose process died must not end the waiting
    for the others, so its result becomes that of a failed job."""
    if "submitit" in launcher:
        import submitit.core.core

        return _results_of(submitit.core.core.Job, "results", lambda result: [result])
    return _through_ray() if "ray" in launcher else contextlib.nullcontext()


@contextlib.contextmanager
def _through_ray() -> Iterator[None]:
    """Ray, which takes SIGTERM for itself, leaves it to the sweep, and is gone before the sweep has told its end."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    handler, begin = signal.getsignal(signal.SIGTERM), ray.init

    def init(*arguments: object, **options: object) -> object:
        found = begin(*arguments, **options)
        signal.signal(signal.SIGTERM, handler)
        return found

    ray.init = init
    try:
        with _results_of(ray, "get", lambda result: result):
            yield
    finally:
        ray.init = begin
        ray.shutdown()


@contextlib.contextmanager
def _results_of(owner: object, name: str, wrap: Callable[[JobReturn], object]) -> Iterator[None]:
    original = getattr(owner, name)

    def result(*arguments: object) -> object:
        try:
            return original(*arguments)
        except Exception as error:
            reason = JobFailed(f"{type(error).__name__}: {one_line(error)}")
            return wrap(JobReturn(status=JobStatus.FAILED, _return_value=reason))

    setattr(owner, name, result)
    try:
        yield
    finally:
        setattr(owner, name, original)
