#!/usr/bin/env python3
"""The commands of SLURM, as far as submitit uses them, on this machine: sbatch starts all jobs of an array, scontrol
makes one start again after its end, sacct tells their states. Linked under those names by test_sweep.py; the folder
FAKE_SLURM holds the states."""

import os
import re
import subprocess
import sys
from pathlib import Path

ARRAY, HERE = "77", Path(os.environ["FAKE_SLURM"])


def sbatch(script: str) -> None:
    first, last = re.search(r"#SBATCH --array=(\d+)-(\d+)", Path(script).read_text()).groups()
    for task in range(int(first), int(last) + 1):
        (HERE / f"{ARRAY}_{task}.state").write_text("RUNNING")
        command = [sys.executable, __file__, "job", script, str(task)]
        subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"Submitted batch job {ARRAY}")


def job(script: str, task: str) -> None:
    """A job of the array, again as long as it is put into the queue again."""
    name = f"{ARRAY}_{task}"
    numbers = {
        "NTASKS": "1",
        "JOB_NUM_NODES": "1",
        "NODEID": "0",
        "PROCID": "0",
        "LOCALID": "0",
        "JOB_NODELIST": "here",
    }
    numbers |= {"JOB_ID": f"{ARRAY}{task}", "ARRAY_JOB_ID": ARRAY, "ARRAY_TASK_ID": task}
    environment = os.environ | {f"SLURM_{key}": value for key, value in numbers.items()}
    while True:
        code = subprocess.run(["bash", script], env=environment).returncode
        if not (HERE / f"{name}.again").exists():
            break
        (HERE / f"{name}.again").unlink()
    (HERE / f"{name}.state").write_text("FAILED" if code else "COMPLETED")


def srun(*arguments: str) -> None:
    """--unbuffered --output FILE [--error FILE] COMMAND..."""
    begin = next(
        i for i, a in enumerate(arguments) if not a.startswith("-") and arguments[i - 1] not in ("--output", "--error")
    )
    out = arguments[arguments.index("--output") + 1]
    for mark, value in (("%A", ARRAY), ("%a", os.environ["SLURM_ARRAY_TASK_ID"]), ("%t", "0")):
        out = out.replace(mark, value)
    with open(out, "a") as file:
        sys.exit(subprocess.run(arguments[begin:], stdout=file, stderr=subprocess.STDOUT).returncode)


def scontrol(_requeue: str, name: str) -> None:
    (HERE / f"{name}.again").touch()


def sacct(*_: str) -> None:
    print("JobID|State|NodeList")
    for path in sorted(HERE.glob("*.state")):
        print(f"{path.stem}|{path.read_text()}|here")


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(*sys.argv[2:])
    else:
        {"sbatch": sbatch, "srun": srun, "scontrol": scontrol, "sacct": sacct}[Path(sys.argv[0]).name](*sys.argv[1:])
