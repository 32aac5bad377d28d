"""TensorBoard's events of a run that goes on: each value once, whatever was killed and however the clock jumped.

TensorBoard reads the files in the order of their names, which begin with the time, and can only be told to forget what
came before from a step on. So what is to stay is written into one file, whose name comes before every other.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from varnet.base.files import again, reading, write_atomically

FILES = "events.out.tfevents.*"
KEPT = "events.out.tfevents.0000000000.kept"
MOST = 2**32  # bytes of a file that are looked at


def keep(folder: Path, step: int) -> None:
    """The values up to a step; later ones, and what a run writes but once, are logged again."""
    files = sorted(folder.glob(FILES))
    head, values = b"", {}
    for path in files:
        for record, data in _records(path):
            version, number, tags = _about(data)
            if version:
                head = head or record
            elif tags and 0 < number <= step:
                values[number, tags] = record
    if values:
        write_atomically(folder / KEPT, head + b"".join(values[key] for key in sorted(values)))
    for path in files:
        if path.name != KEPT or not values:
            again(path.unlink)


def _records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """(as it lies in the file, what it holds), up to where the file is cut off or damaged."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    try:
        with reading(path, MOST) as file:
            left = path.stat().st_size
            while len(head := file.read(12)) == 12:
                size, checksum = struct.unpack("<QI", head)
                left -= 16 + size
                if left < 0 or masked_crc32c(head[:8]) != checksum:
                    return
                rest = file.read(size + 4)
                if struct.unpack("<I", rest[size:])[0] == masked_crc32c(rest[:size]):
                    yield head + rest, rest[:size]
    except OSError:  # a pipe, a folder: nothing that was written here
        return


def _about(data: bytes) -> tuple[str, int, tuple[str, ...]]:
    """(version of the format, step, tags) of an event."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    try:
        event = Event.FromString(data)
    except DecodeError:
        return "", 0, ()
    return event.file_version, event.step, tuple(value.tag for value in event.summary.value)
