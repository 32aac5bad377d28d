"""Rebuild tables and figures of the paper, running what is missing:

python scripts/reproduce.py TARGET... [key=value ...]

Targets, or all of them with `all` (toy is another name for fig1):

{targets}

seeds=3            runs of each row, seeds 0, 1, 2
scale=full         as published (the default); of configs/experiment also small (fits two CPU cores), and for CIFAR fast
                   and half: a schedule of our own at full width and at width 0.5; several: full,fast,half,small
jobs=1             runs at the same time, each in a process of its own; with more than one, threads=1 unless given
missing=true       leave out runs of which FOLDER/runs or, in a checkout, docs/results/runs has a record, though their
                   folders are gone: what `status` calls missing is run
order=given        as the targets come (the default); cheapest: what took the least time before comes first
run=false          run nothing, build from the runs that are there
out=FOLDER         of tables, figures and report.html; default outputs/reproduction
precision=fp32     of training, as for train.py; also auto: if the processor has bfloat16 instructions that of most runs
                   of the row, and bf16 for a new one; else fp32
out_dir, data_dir, device, threads, checkpoint_every, checkpoint_minutes   as for train.py

`status` instead of building lists every row of the targets (of all, if none is named): what is published, how many
runs there are at each scale and precision, how many are missing of seeds=3 at full scale (or scale=...) with
precision=auto (or another), and the hours that these take by the times of earlier runs. It ends with the command that
runs them: one queue for everything, which goes on with the same command, whatever ended it.

A finished run is never run again, an interrupted one goes on from its checkpoint, Figure 7 after the last attack that
was told: start the same command again.
Of every finished run a record is kept in FOLDER/runs, and tables count records whose run folder is gone.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from varnet.base.invocation import as_typed
from varnet.errors import ConfigError

if TYPE_CHECKING:
    from varnet.launch.queue import Job
    from varnet.paper.library import Library
    from varnet.paper.targets import Drawn
    from varnet.report.row import Row

PASSED_ON = ("out_dir", "data_dir", "device", "threads", "precision", "checkpoint_every", "checkpoint_minutes")
SCALES = ("full", "fast", "half", "small")
DEFAULTS = {"seeds": "1", "scale": "full", "jobs": "1", "run": "true", "missing": "false", "order": "given",
            "out": "outputs/reproduction"}  # fmt: skip
CHOICES = {"scale": SCALES, "run": ("true", "false"), "missing": ("true", "false"),
           "order": ("given", "cheapest")}  # fmt: skip
RESULTS = "docs/results"  # of a checkout
WIDTH = 170  # of a list that goes into a file
ALIASES = {"toy": "fig1"}


def help_text() -> str:
    """The text above with the targets that are there."""
    from varnet.paper.reproduction import TARGETS

    targets = "\n".join(f"{name:<18} {target.title}" for name, target in TARGETS.items())
    return as_typed(__doc__.replace("{targets}", targets))


def parse(arguments: list[str], targets: list[str]) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
    """Names of targets, options, and overrides for train.py."""
    options = dict(DEFAULTS)
    passed: dict[str, str] = {}
    for argument in [a for a in arguments if "=" in a]:
        key, _, value = argument.partition("=")
        if key not in DEFAULTS and key not in PASSED_ON:
            raise ConfigError(f"is not known: use one of {', '.join([*DEFAULTS, *PASSED_ON])}", key, value)
        (options if key in DEFAULTS else passed)[key] = value
    check(options | passed)
    if int(options["jobs"]) > 1:
        passed.setdefault("threads", "1")
    names, overrides = chosen(arguments, targets), tuple(f"{key}={value}" for key, value in passed.items())
    if overrides:
        check_passed_on(overrides)
    return names, options, overrides


def check_passed_on(overrides: tuple[str, ...]) -> None:
    """Refuse what train.py would refuse, before anything is looked at for it."""
    from varnet.paper.library import AUTO
    from varnet.runs import schema
    from varnet.runs.composing import composed
    from varnet.runs.overrides import said

    known = [override for override in overrides if override != AUTO]  # which is ours
    with said(known):
        cfg = composed(*known)
    schema.check(cfg)


def chosen(arguments: list[str], targets: list[str]) -> list[str]:
    """The targets that are named, each once."""
    names = [ALIASES.get(a, a) for a in arguments if "=" not in a]
    if unknown := [name for name in names if name not in targets and name != "all"]:
        raise ConfigError(f"{unknown[0]} is not known: choose from {', '.join(targets)}, all")
    if not names:
        raise ConfigError(f"name a table or a figure: {', '.join(targets)}, all")
    return targets if "all" in names else list(dict.fromkeys(names))


def check(options: dict[str, str]) -> None:
    """Refuse values that mean nothing."""
    for key, value in options.items():
        if not value:
            raise ConfigError("is empty: give it a value, or leave it out", key, value)
        given = value.split(",") if key == "scale" else [value]
        if key in CHOICES and not set(given) <= set(CHOICES[key]):
            raise ConfigError(f"is invalid: use {' or '.join(CHOICES[key])}", key, value)
        counted = key in ("seeds", "jobs") or (key == "threads" and value != "null")
        if counted and not (value.isdecimal() and len(value) <= 4 and int(value) >= 1):
            raise ConfigError("is invalid: use a whole number from 1 to 9999", key, value)


def main(arguments: list[str]) -> int:
    from varnet.base.signals import termination_interrupts

    with termination_interrupts():
        return rebuild(arguments)


def rebuild(arguments: list[str]) -> int:
    """The exit code; what the user can mend is said in one sentence."""
    if not arguments or "-h" in arguments or "--help" in arguments:
        print(help_text(), end="")
        return 0 if arguments else 2

    from varnet.base.terminal import tolerate
    from varnet.errors import Interrupted
    from varnet.launch.ending import refused, unwritable
    from varnet.paper.reproduction import TARGETS

    tolerate()
    try:
        if "status" in arguments:
            return status([a for a in arguments if a != "status"])
        names, options, overrides = parse(arguments, list(TARGETS))
        return made(names, options, overrides)
    except (KeyboardInterrupt, Interrupted):
        print("stopped; the same command goes on from the checkpoints", file=sys.stderr)
        return 130
    except ConfigError as error:
        return refused(error)
    except OSError as error:
        return unwritable(error)


def status(arguments: list[str]) -> int:
    """List what there is of every row and what is missing."""
    from varnet.base import terminal
    from varnet.base.invocation import command
    from varnet.paper import status
    from varnet.paper.reproduction import TARGETS

    arguments = ["seeds=3", "precision=auto", *arguments]
    named = arguments if any("=" not in a for a in arguments) else [*arguments, "all"]
    names, options, overrides = parse(named, list(TARGETS))
    library = stored(options, overrides, missing=True)
    found = status.lines([TARGETS[name] for name in names], library)
    terminal.console(WIDTH).print(status.table(found))
    print(status.summary(found))
    if any(line.missing for line in found):
        own = " ".join([*(f"{key}={options[key]}" for key in ("seeds", "scale")), *overrides])
        what = "all" if len(names) == len(TARGETS) else " ".join(names)
        print(f"to run them: {command('reproduce')} {what} {own} missing=true order=cheapest jobs=2")
    return 0


def stored(options: dict[str, str], overrides: tuple[str, ...], missing: bool) -> "Library":
    """Runs in their folders and the records of out=FOLDER; what is missing is missing in docs/results too."""
    from varnet.paper.library import Library

    recorded = Path(options["out"]) / "runs"
    beside = [place for place in [Path(RESULTS) / "runs"] if missing and place.is_dir() and place != recorded]
    may_run, at_once = options["run"] == "true", int(options["jobs"])
    return Library(int(options["seeds"]), options["scale"], overrides, may_run, recorded, at_once, beside)


def made(names: list[str], options: dict[str, str], overrides: tuple[str, ...]) -> int:
    """Run what is missing, write what can be made; 1 if that is not all."""
    from varnet.base.device import tune_cpu
    from varnet.launch.ending import sentence
    from varnet.launch.queue import run_queue
    from varnet.paper.reproduction import TARGETS
    from varnet.paper.status import complete

    out, missing = Path(options["out"]), options["missing"] == "true"
    library = stored(options, overrides, missing)
    if missing:
        names = [name for name in names if not complete(TARGETS[name], library)]
    wanted = planned(names, options, library)
    failed = run_queue(wanted, library.at_once, lambda job: record(job.folder(), out)) if library.may_run else []
    threads = library.option("threads") or "null"
    tune_cpu(None if threads == "null" else int(threads))  # figures are drawn here, from networks that predict
    written = write(names, library, out)
    failed += [f"{name}: {reason}" for name, reason in library.failures.items()]
    for line in failed:
        print(sentence(line), file=sys.stderr)
    if unmade := [name for name in names if name not in written and name not in library.failures]:
        print(f"no finished run yet for: {', '.join(unmade)}", file=sys.stderr)
    return 1 if failed or unmade else 0


def planned(names: list[str], options: dict[str, str], library: "Library") -> "list[Job]":
    """The runs of the queue in their order, checked before the first one starts."""
    from varnet.paper.reproduction import TARGETS, jobs_of
    from varnet.paper.status import by_cost, without_recorded
    from varnet.runs import schema

    wanted = jobs_of(names, library)
    if names and not wanted and all(TARGETS[name].experiments for name in names):
        raise ConfigError(f"has no experiment for {', '.join(names)}: use scale=full", "scale", options["scale"])
    for job in wanted:
        schema.check(job.config())
    if options["missing"] == "true":
        wanted = without_recorded(wanted, library)
    return by_cost(wanted, library) if options["order"] == "cheapest" else wanted


def record(folder: Path, out: Path) -> None:
    """Keep what tables need of a finished run, whatever becomes of its folder."""
    from varnet.base.files import write_atomically
    from varnet.runs import records

    (out / "runs").mkdir(parents=True, exist_ok=True)
    found = records.of_folder(folder)
    write_atomically(out / "runs" / records.file_name(found), records.as_json(found))


def write(names: list[str], library: "Library", out: Path) -> list[str]:
    """Everything that can be made of the runs that are there, with their records; one page with all that stands in the
    folder. The names of what was made."""
    from varnet.base.files import write_atomically
    from varnet.paper.reproduction import TARGETS, build
    from varnet.report.tables import markdown
    from varnet.runs import records

    (out / "runs").mkdir(parents=True, exist_ok=True)
    written = []
    for name, found in build(names, library):
        title = TARGETS[name].title
        written.append(name)
        for file, record in library.records(TARGETS[name].every).items():
            write_atomically(out / "runs" / file, records.as_json(record))
        for ending, content in files_of(title, found).items():
            if not written_by_hand(path := out / f"{name}{ending}"):
                write_atomically(path, content)
        if unfinished := library.unfinished(name):
            unfinished.unlink(missing_ok=True)
        print(f"\n{title}\n\n{markdown(found)}" if isinstance(found, list) else f"{title}: {out / name}.png")
    if written:
        write_atomically(out / "report.html", report(out))
        print(f"report: {out / 'report.html'}")
    return written


def written_by_hand(path: Path) -> bool:
    """Whether this is a page of docs/results, whose tables publish.py fills."""
    from varnet.report.marks import has_marks

    return path.suffix == ".md" and path.is_file() and has_marks(path.read_text(encoding="utf-8"))


def files_of(title: str, found: "list[Row] | Drawn") -> dict[str, bytes | str]:
    """Ending of a file -> its content: rows as JSON and Markdown, a figure as PNG and SVG with its numbers."""
    from varnet.report.row import as_json
    from varnet.report.tables import markdown

    rows, files = (found, {}) if isinstance(found, list) else (found.rows, pictures(found))
    if rows:
        files |= {".json": as_json(rows), ".md": f"## {title}\n\n{markdown(rows)}"}
    return files


def pictures(drawn: "Drawn") -> dict[str, bytes | str]:
    """Ending of a file -> what is drawn, and the numbers that can be read off it."""
    from varnet.base.plots import rendered

    rows = {"rows": [row.as_dict() for row in drawn.rows]} if drawn.rows else {}
    gif = {".gif": drawn.gif} if drawn.gif else {}
    return {
        ".png": rendered(drawn.figure), ".svg": rendered(drawn.figure, "svg"),
        ".numbers.json": json.dumps(drawn.numbers | rows, indent=1) + "\n", **gif,
    }  # fmt: skip


def report(out: Path) -> str:
    """The page of every table and figure in a folder, whenever it was made."""
    from varnet.paper.reproduction import TARGETS
    from varnet.report.page import image, page
    from varnet.report.row import read
    from varnet.report.tables import as_html

    sections = []
    for name, target in TARGETS.items():
        rows, png = read(out / f"{name}.json"), out / f"{name}.png"
        content = image(png.read_bytes(), target.title) if png.exists() else ""
        content += as_html(rows) if rows else ""
        sections += [(target.title, content)] if content else []
    note = "Published values beside ours, mean ± standard deviation over n seeds; the scale of a run stands in its row."
    return page("Variance Networks: reproduction", note, sections)
