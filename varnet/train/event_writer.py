"""TensorBoard's events, written by the run itself.

TensorBoard's own writer leaves the writing to a thread. A file system that refuses it is then a traceback of that
thread, and the events that were in its queue are lost; here it is an error of the run like any other, and the next
attempt writes them. A short run is spared the thread, too.
"""

import io
import itertools
import os
import socket
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.writer import FileWriter

from varnet.base.files import append

_number = itertools.count()  # of the files of this process


class EventWriter(SummaryWriter):
    """A SummaryWriter that holds no file and has written all it was given after flush()."""

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = _Direct(Path(self.log_dir))
            self.all_writers = {str(self.log_dir): self.file_writer}
        return self.file_writer


class _Direct(FileWriter):
    def __init__(self, folder: Path):
        self.event_writer = _File(folder)


class _File:
    """A file of events, under the kind of name by which TensorBoard finds it."""

    def __init__(self, folder: Path):
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_number)}"
        self.path, self.waiting = folder / name, io.BytesIO()
        self.add_event(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def get_logdir(self) -> str:
        return str(self.path.parent)

    def add_event(self, event: Event) -> None:
        RecordWriter(self.waiting).write(event.SerializeToString())

    def flush(self) -> None:
        if content := self.waiting.getvalue():
            append(self.path, content)
            self.waiting = io.BytesIO()

    def close(self) -> None:
        """No file is open. What waits is not written: its folder may be another's by now."""
