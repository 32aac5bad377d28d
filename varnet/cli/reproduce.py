"""Rebuild tables and figures of the paper, running what is missing:

python scripts/reproduce.py TARGET... [key=value ...]

Targets: table1 table2 table3 noise phase fig1 .. fig9 fig7_mnist sparse emptying random_labels linear, or all
(toy is another name for fig1)

seeds=3            runs of each row, seeds 0, 1, 2
scale=small        experiments that fit two CPU cores (configs/experiment/small); full: as published (the default)
jobs=1             runs at the same time, each in a process of its own; with more than one, threads=1 unless given
run=false          run nothing, build from the runs that are there
out=FOLDER         of tables, figures and report.html; default outputs/reproduction
out_dir, data_dir, device, threads, precision, checkpoint_every, checkpoint_minutes   as for train.py

A finished run is never run again, an interrupted one goes on from its checkpoint, Figure 7 after the last attack that
was told: start the same command again.
Of every finished run a record is kept in FOLDER/runs, and tables count records whose run folder is gone.
"""

import json
import sys
from pathlib import Path

from varnet.base.invocation import as_typed

PASSED_ON = ("out_dir", "data_dir", "device", "threads", "precision", "checkpoint_every", "checkpoint_minutes")
DEFAULTS = {"seeds": "1", "scale": "full", "jobs": "1", "run": "true", "out": "outputs/reproduction"}


class UsageError(ValueError):
    pass


def parse(arguments: list[str], targets: list[str]) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
    """Names of targets, options, and overrides for train.py."""
    names = ["fig1" if a == "toy" else a for a in arguments if "=" not in a]
    if unknown := [n for n in names if n not in targets and n != "all"]:
        raise UsageError(f"{unknown[0]} is not known: choose from {', '.join(targets)}, all")
    if not names:
        raise UsageError(f"name a table or a figure: {', '.join(targets)}, all")
    names = targets if "all" in names else list(dict.fromkeys(names))
    options, passed = dict(DEFAULTS), {}
    for argument in [a for a in arguments if "=" in a]:
        key, _, value = argument.partition("=")
        if key not in DEFAULTS and key not in PASSED_ON:
            raise UsageError(f"{argument}: there is no key {key}; use one of {', '.join([*DEFAULTS, *PASSED_ON])}")
        (options if key in DEFAULTS else passed)[key] = value
    numbers = {key: options[key] for key in ("seeds", "jobs")} | {"threads": passed.get("threads", "null")}
    for key, value in numbers.items():
        if not (value.isdecimal() and int(value) >= 1) and (key, value) != ("threads", "null"):
            raise UsageError(f"{key}={value} is invalid: use a whole number from 1")
    if empty := [key for key, value in (options | passed).items() if not value]:
        raise UsageError(f"{empty[0]}= is empty: give it a value, or leave it out")
    for key, allowed in (("scale", ("full", "small")), ("run", ("true", "false"))):
        if options[key] not in allowed:
            raise UsageError(f"{key}={options[key]} is invalid: use {' or '.join(allowed)}")
    if int(options["jobs"]) > 1:
        passed.setdefault("threads", "1")
    return names, options, tuple(f"{key}={value}" for key, value in passed.items())


def main(arguments: list[str]) -> int:
    from varnet.base.signals import termination_interrupts

    with termination_interrupts():
        return rebuild(arguments)


def rebuild(arguments: list[str]) -> int:
    if not arguments or "-h" in arguments or "--help" in arguments:
        print(as_typed(__doc__), end="")
        return 0 if arguments else 2

    from hydra.errors import HydraException

    from varnet.base.device import tune_cpu
    from varnet.errors import ConfigError, Interrupted
    from varnet.launch.command import unwritable
    from varnet.launch.queue import run_queue
    from varnet.paper.reproduction import TARGETS, Library, jobs_of
    from varnet.runs.overrides import explain
    from varnet.runs.schema import check

    try:
        names, options, overrides = parse(arguments, list(TARGETS))
        recorded = Path(options["out"]) / "runs"
        seeds, at_once = int(options["seeds"]), int(options["jobs"])
        library = Library(seeds, options["scale"], overrides, options["run"] == "true", recorded, at_once)
        wanted = jobs_of(names, library)
        for job in wanted:
            check(job.config())
        failed = run_queue(wanted, at_once) if library.may_run else []
        threads = library.option("threads", "null")
        tune_cpu(None if threads == "null" else int(threads))  # figures are drawn here, from networks that predict
        written = write(names, library, Path(options["out"]))
    except (KeyboardInterrupt, Interrupted):
        print("stopped; the same command goes on from the checkpoints", file=sys.stderr)
        return 130
    except (UsageError, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except HydraException as error:
        print(f"error: {explain(error, list(overrides))}", file=sys.stderr)
        return 2
    except OSError as error:
        return unwritable(error)
    failed += [f"{name}: {reason}" for name, reason in library.failures.items()]
    for line in failed:
        print(line, file=sys.stderr)
    if missing := [name for name in names if name not in written and name not in library.failures]:
        print(f"no finished run yet for: {', '.join(missing)}", file=sys.stderr)
    return 1 if failed or missing else 0


def write(names: list[str], library, out: Path) -> list[str]:
    """Tables as JSON, Markdown and HTML, figures as PNG and SVG with their numbers; configuration and metrics of their
    runs; one page with all that stands in the folder."""
    from varnet.base.files import write_atomically
    from varnet.base.plots import rendered
    from varnet.paper.fig7 import UNFINISHED
    from varnet.paper.reproduction import build, title
    from varnet.report import tables
    from varnet.runs import records

    (out / "runs").mkdir(parents=True, exist_ok=True)
    written = []

    def save(name: str, content: str | bytes) -> None:
        write_atomically(out / name, content.encode() if isinstance(content, str) else content)

    for name, found in build(names, library):
        written.append(name)
        for file, record in library.records(name).items():
            save(f"runs/{file}", records.as_json(record))
        if isinstance(found, list):
            rows = found
            print(f"\n{title(name)}\n\n{tables.markdown(rows)}")
        else:
            figure, numbers = found
            if gif := numbers.pop("gif", None):
                save(f"{name}.gif", gif)
            save(f"{name}.png", rendered(figure))
            save(f"{name}.svg", rendered(figure, "svg"))
            save(f"{name}.numbers.json", json.dumps(numbers, indent=1) + "\n")
            rows = numbers.get("rows")
            print(f"{title(name)}: {out / name}.png")
        if rows:
            save(f"{name}.json", tables.as_json(rows))
            save(f"{name}.md", f"## {title(name)}\n\n{tables.markdown(rows)}")
        (out / f"{name}{UNFINISHED}").unlink(missing_ok=True)
    if written:
        save("report.html", report(out))
        print(f"report: {out / 'report.html'}")
    return written


def report(out: Path) -> str:
    """The page of every table and figure in a folder, whenever it was made."""
    from varnet.paper.reproduction import TARGETS, title
    from varnet.report import tables
    from varnet.report.page import image, page

    sections = []
    for name in TARGETS:
        rows, png = out / f"{name}.json", out / f"{name}.png"
        content = image(png.read_bytes(), title(name)) if png.exists() else ""
        content += tables.as_html(json.loads(rows.read_text())) if rows.exists() else ""
        sections += [(title(name), content)] if content else []
    note = "Published values beside ours, mean ± standard deviation over n seeds; the scale of a run stands in its row."
    return page("Variance Networks: reproduction", note, sections)
