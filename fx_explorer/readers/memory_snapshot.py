"""This module reads a CUDA memory snapshot, which ``torch.cuda.memory._dump_snapshot`` writes, or
the pickle of what ``_snapshot`` returns.

Its layout is described in ``torch/cuda/memory.py`` (``_snapshot``) and made in
``torch/csrc/cuda/Module.cpp`` (``THCPModule_memorySnapshot``). It is a pickle, and nothing of it is
executed: containers, texts and numbers are all that is let in.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fx_explorer.errors import SessionError
from fx_explorer.model import Frame
from fx_explorer.outside_file import open_outside

MOST_READ = 2 << 30
"""Largest snapshot that is read, in bytes."""

MOST_UNPACKED = 512 << 20
"""Largest snapshot that is unpacked, in bytes."""

_STEP = 1 << 20

_ROOM = 512 << 20
"""Bytes of address space that reading may take beside those for the content."""

_INFLATED = 60
"""Bytes of Python objects for a byte of the pickle, at most: a dict of one frame has 30."""

MOST_FRAMES = 1_000

LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a segment: in use, or free for reuse."""

    address: int
    size_bytes: int
    requested_bytes: int
    state: str
    """``active_allocated``, ``active_pending_free`` (freed, another stream may still use it) or
    ``inactive``; before torch 2.1 ``active_awaiting_free``.
    """
    frames: tuple[Frame, ...]
    """Where it was allocated, the innermost first; empty where that was not recorded."""

    @property
    def is_allocated(self) -> bool:
        return self.state == "active_allocated"

    @property
    def is_free(self) -> bool:
        return self.state == "inactive"


@dataclass(frozen=True, slots=True)
class MemorySegment:
    """Memory that the allocator got from the device at once."""

    device: int
    size_bytes: int
    blocks: tuple[Block, ...]
    is_of_pool: bool
    """Whether it belongs to a pool of its own, as that of a CUDA graph."""

    @property
    def is_in_use(self) -> bool:
        return any(not block.is_free for block in self.blocks)


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """Something that the allocator did."""

    action: str
    """``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``, ``segment_free``,
    ``segment_map``, ``segment_unmap``, ``oom``, ``snapshot`` …
    """
    address: int
    """0 for ``oom``."""
    size_bytes: int
    frames: tuple[Frame, ...]
    free_bytes: int = 0
    """For ``oom``: what the device had left."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    segments: tuple[MemorySegment, ...]
    events: tuple[tuple[MemoryEvent, ...], ...]
    """Events by device, the earliest first; empty where no history was recorded."""
    settings: str = ""
    """PYTORCH_CUDA_ALLOC_CONF."""


def read_snapshot(file: Path) -> MemorySnapshot:
    """Read a snapshot, packed with gzip or not. Raises SessionError for anything else."""
    try:
        with open_outside(file, MOST_READ) as raw:
            content = _unpacked(raw)
        plain = _plain_objects(content)
        return _Making(len(content)).snapshot(plain)
    except OSError as error:
        raise SessionError(f"{file} cannot be read: {error.strerror or error}") from error
    except (
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        MemoryError,
        RecursionError,
        zlib.error,
    ) as error:
        reason = str(error) or type(error).__name__
        raise SessionError(
            f"{file} is not a memory snapshot written by torch, or is incomplete: {reason}"
        ) from error


def _unpacked(raw: BinaryIO) -> bytes:
    """Return the pickle. Raises ValueError for one that unpacks to more than is read."""
    start = raw.read(2)
    raw.seek(0)
    if start != b"\x1f\x8b":
        return raw.read()
    parts = []
    left = MOST_UNPACKED
    with gzip.GzipFile(fileobj=raw) as unpacked:
        while part := unpacked.read(_STEP):
            left -= len(part)
            if left < 0:
                raise ValueError(f"it unpacks to more than {MOST_UNPACKED:,} bytes")
            parts.append(part)
    return b"".join(parts)


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that knows no class and no function, so that nothing can be called."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}, but a snapshot has only plain values"
        )

    def persistent_load(self, _: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside of itself")


def _plain_objects(content: bytes) -> object:
    """Return the object of a pickle. Raises ValueError for a pickle of anything but containers,
    texts and numbers, and MemoryError for one that takes far more room than its size.
    """
    unpickler = _PlainUnpickler(io.BytesIO(content))
    try:
        with _limited_memory(_ROOM + _INFLATED * len(content)):
            plain: object = unpickler.load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, ImportError) as error:
        raise ValueError(str(error) or "it ends in the middle") from error
    return plain


@contextlib.contextmanager
def _limited_memory(more_bytes: int) -> Iterator[None]:
    """Let this process take only so much more address space (Linux; elsewhere there is no limit): a
    few bytes of a pickle can ask for a table of gigabytes.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError, ValueError):
        yield
        return
    limit = pages * resource.getpagesize() + more_bytes
    if before[0] != resource.RLIM_INFINITY:
        limit = min(limit, before[0])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class _Making:
    """Makes our rows of the plain objects. Raises ValueError, KeyError or TypeError for objects
    that are not as torch makes them.
    """

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes
        """Objects that may still be read. Each takes some bytes of the pickle, unless many refer to
        one, as torch never writes it.
        """
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._frames: dict[Frame, Frame] = {}

    def snapshot(self, plain: object) -> MemorySnapshot:
        if isinstance(plain, list):  # what torch.cuda.memory_snapshot() returns
            plain = {"segments": plain}
        if not isinstance(plain, dict) or "segments" not in plain:
            raise ValueError("it has no segments")
        segments = tuple(self._each(plain["segments"], self._segment))
        traces = plain.get("device_traces") or []
        events = tuple(tuple(self._each(trace, self._event)) for trace in _list(traces))
        settings = plain.get("allocator_settings")
        conf = settings.get("PYTORCH_CUDA_ALLOC_CONF") if isinstance(settings, dict) else ""
        return MemorySnapshot(segments, events, str(conf or "")[:1000])

    def _each(self, rows: object, make: Callable[[dict[str, Any]], Any]) -> Iterator[Any]:
        for row in _list(rows):
            yield make(self._table(row))

    def _table(self, row: object) -> dict[str, Any]:
        """Return an entry, which counts as read."""
        self._take(1)
        if not isinstance(row, dict):
            raise ValueError("an entry is not a table of names and values")
        return row

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueError("it refers to its own entries in a cycle")

    def _segment(self, row: dict[str, Any]) -> MemorySegment:
        address = _number(row.get("address", 0))
        blocks = []
        for plain in _list(row["blocks"]):
            block = self._block(self._table(plain), address)
            blocks.append(block)
            address = block.address + block.size_bytes
        pool = row.get("segment_pool_id", (0, 0))
        size_bytes, device = _number(row["total_size"]), _number(row.get("device", 0))
        return MemorySegment(device, size_bytes, tuple(blocks), tuple(pool) != (0, 0))

    def _block(self, row: dict[str, Any], address: int) -> Block:
        size_bytes = _number(row["size"])
        frames = row.get("frames")
        if frames is None:  # before torch 2.1 a block had its last allocations
            history = row.get("history") or [{}]
            frames = history[0].get("frames") or []
        return Block(
            _number(row.get("address", address)),
            size_bytes,
            _number(row.get("requested_size", size_bytes)),
            str(row["state"]),
            self._stack(frames),
        )

    def _event(self, row: dict[str, Any]) -> MemoryEvent:
        return MemoryEvent(
            str(row["action"]),
            _number(row.get("addr", 0)),
            _number(row.get("size", 0)),
            self._stack(row.get("frames") or []),
            _number(row.get("device_free", 0)),
        )

    def _stack(self, frames: object) -> tuple[Frame, ...]:
        """Return frames; a list that several events share is read once."""
        listed = _list(frames)
        known = self._stacks.get(id(listed))
        if known is None:
            self._take(len(listed))
            made = [self._frame(frame) for frame in listed[:MOST_FRAMES]]
            known = self._stacks[id(listed)] = tuple(made)
        return known

    def _frame(self, frame: object) -> Frame:
        if not isinstance(frame, dict):
            raise ValueError("a frame is not a table of names and values")
        made = Frame(
            str(frame["filename"]), _number(frame["line"], least=-1), str(frame.get("name", ""))
        )
        return self._frames.setdefault(made, made)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a list is expected, but found a {type(value).__name__}")
    return value


def _number(value: object, least: int = 0) -> int:
    if not isinstance(value, int) or not least <= value <= LARGEST:
        raise ValueError("a number is not a valid size, address or line")
    return int(value)
