"""A dataset of official files -> verified arrays: from the cache, else from the first source that gives those bytes."""

import logging
import tarfile
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from varnet.base.text import plain_text
from varnet.data import cache
from varnet.data.cache import Cached
from varnet.data.folder import one_process_at_a_time, scratch_folder, why_unwritable
from varnet.data.official import Arrays
from varnet.data.progress import progress
from varnet.data.sources import Source
from varnet.errors import DataError, SourceError, one_line

if TYPE_CHECKING:
    from varnet.data.fetched import Fetched

log = logging.getLogger(__name__)

# What a source may raise besides SourceError: torchvision and the network, broken archives, a full disk.
FAILURES = (SourceError, OSError, RuntimeError, ValueError, KeyError, EOFError, zlib.error, tarfile.TarError)


def fetch(spec: "Fetched", folder: Path) -> Cached:
    """Raises DataError with everything that was tried."""
    reasons: list[str] = []
    if cached := _read_cache(spec, folder, reasons):
        return cached
    for damage in reasons:
        log.warning("%s: %s; it is fetched anew", spec.name, damage)
    if unwritable := why_unwritable(folder):
        return _without_cache(spec, folder, unwritable, reasons)
    with one_process_at_a_time(folder, spec.name), scratch_folder(folder) as scratch:
        if cached := _read_cache(spec, folder, []):  # another process may have been faster
            return cached
        arrays, source = _first_good(spec, folder, scratch, spec.sources, reasons)
        return _write_cache(spec, folder, scratch, arrays, source)


def cache_path(name: str, folder: Path) -> Path:
    return folder / f"varnet_{name}.bin"


def _read_cache(spec: "Fetched", folder: Path, reasons: list[str]) -> Cached | None:
    path = cache_path(spec.name, folder)
    try:
        return cache.read(path, spec.name, spec.official.size)
    except FileNotFoundError:
        return None
    except cache.DamagedCache as error:
        reasons.append(f"{path} is damaged ({error})")
        return None


def _without_cache(spec: "Fetched", folder: Path, unwritable: str, damage: list[str]) -> Cached:
    """A read-only folder still serves the files in it; nothing is downloaded that could not be kept."""
    local = tuple(source for source in spec.sources if source.local)
    reasons = [*damage, f"{folder} cannot be written to ({unwritable}), so nothing was downloaded"]
    with scratch_folder(None) as scratch:
        arrays, source = _first_good(spec, folder, scratch, local, reasons)
    log.warning(
        "%s: read from %s; no cache, because %s cannot be written to (%s)", spec.name, source, folder, unwritable
    )
    return Cached({key: np.array(array, order="C") for key, array in arrays.items()}, source, None)


def _first_good(
    spec: "Fetched", folder: Path, scratch: Path, tried: tuple[Source, ...], reasons: list[str]
) -> tuple[Arrays, str]:
    for source in tried:
        label = str(folder / source.name) if source.local else source.name
        try:
            if arrays := _read_source(spec, folder, scratch, source, label):
                return arrays, label
        except FAILURES as error:
            reasons.append(f"{label}: {_one_line(error)}")
            log.info("%s: %s", spec.name, reasons[-1])
    raise DataError(_nothing_worked(spec, folder, reasons))


def _read_source(spec: "Fetched", folder: Path, scratch: Path, source: Source, label: str) -> Arrays | None:
    if not source.local:
        log.info("%s: trying %s", spec.name, label)
    with nullcontext() if source.own_bar else progress(f"{spec.name}: {label}"):
        files = source.read(folder, scratch, spec.official)
        if files is None:
            return None
        spec.official.verify(files)
        return spec.official.decode(files)


def _write_cache(spec: "Fetched", folder: Path, scratch: Path, arrays: Arrays, source: str) -> Cached:
    name, path = spec.name, cache_path(spec.name, folder)
    total = sum(array.nbytes for array in arrays.values())
    try:
        with progress(f"{name}: writing {path}", total) as advance:
            cache.write(path, name, arrays, source, scratch, advance)
    except OSError as error:
        raise DataError(
            f"dataset={name} was read from {source} but {path} ({total / 1e6:.0f} MB) cannot be written: "
            f"{error.strerror or error}; make room or set data_dir (or VARNET_DATA) to another folder, "
            "or use dataset=digits, which needs no files."
        ) from error
    return cache.read(path, name, spec.official.size)


def _nothing_worked(spec: "Fetched", folder: Path, reasons: list[str]) -> str:
    places = [str(folder / source.name) for source in spec.sources if source.local]
    tried = "; ".join([*reasons, f"no usable files in {', '.join(places[:-1])} or {places[-1]}"])
    return (
        f"dataset={spec.name} could not be had. Tried: {tried}. Remedy: put the official files in one of these places, "
        "or set data_dir (or VARNET_DATA) to another folder, or use dataset=digits, which needs no download."
    )


def _one_line(error: Exception) -> str:
    text = plain_text(one_line(error)) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
