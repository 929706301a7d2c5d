"""This module reads a trace of ``torch.profiler``: which work ran, where and when, and what
launched it.

Kineto writes them in ``output_json.cpp`` (pytorch/kineto): ``cat`` is the kind of event, ``args``
has ``correlation``, which a launch and what it launches share, and ``External id``, the operator
around the launch.
"""

from __future__ import annotations

import codecs
import hashlib
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeGuard

from fx_explorer.errors import SessionError
from fx_explorer.outside_file import open_outside
from fx_explorer.readers.kineto_trace import NONE, CpuThread, Event, EventStream, Trace, devices

CPU = frozenset(("cpu_op", "user_annotation"))
GPU = frozenset(("kernel", "gpu_memcpy", "gpu_memset"))
LAUNCH = frozenset(
    (
        "cuda_runtime",
        "cuda_driver",
        "hip_runtime",
        "hip_driver",
        "xpu_runtime",
        "privateuse1_runtime",
    )
)

MOST_EVENTS = 30_000_000
"""Maximum number of events that are read; a note says so, because more would take GBs of memory."""

MOST_STACKS = 200_000
LONGEST_STACK = 4_000
MOST_OF_KERNEL = 100

EVENTS_BETWEEN_TOLD = 50_000

Told = Callable[[int], None]
"""A function that is called now and then with the number of bytes of the file that were read."""


class ProfileError(SessionError):
    """A file is no trace that can be used."""


def read_trace(path: Path, tell: Told = lambda read: None) -> Trace:
    """Read a trace. Raises ProfileError for a file that is not a trace, or has no events."""
    text = TraceText(path)
    stream = EventStream(text.pieces())
    reading = _Reading()
    try:
        for event in stream.events():
            reading.add(event)
            if reading.trace.events % EVENTS_BETWEEN_TOLD == 0:
                tell(text.packed_bytes)
            if reading.trace.events >= MOST_EVENTS:
                break
    except OSError as error:
        raise ProfileError(f"cannot read the profile {path}: {error.strerror or error}") from error
    trace = reading.trace
    if not stream.is_trace:
        raise ProfileError(_what_it_is(path, text))
    if not trace.events:
        raise ProfileError(
            f"{path} is a profile without events: nothing ran while it was recorded, or "
            "it was cut off"
        )
    for thread in trace.threads:
        thread.nest()
    trace.skipped += stream.skipped
    trace.devices = devices(stream.head)
    trace.digest = text.digest
    if trace.events >= MOST_EVENTS:
        trace.problem = f"it has more than {MOST_EVENTS:,} events; only the first ones were read"
    elif not stream.is_whole:
        trace.problem = text.problem or "the file ends within the list of events"
    return trace


def _what_it_is(path: Path, text: TraceText) -> str:
    if not text.packed_bytes:
        return f"{path} is empty, so it is not a profile"
    damage = f" ({text.problem})" if text.problem else ""
    return (
        f"{path} is not a profile: it has no traceEvents{damage}. torch.profiler writes one with "
        "export_chrome_trace(FILE)"
    )


class _Reading:
    """Reads the events of a profile one by one into a Trace."""

    def __init__(self) -> None:
        self.trace = Trace()
        self._threads: dict[tuple[str, str], int] = {}
        self._processes: dict[str, int] = {}

    def add(self, event: Event) -> None:
        trace = self.trace
        trace.events += 1
        kind = event.get("cat")
        if event.get("ph") != "X" or not isinstance(kind, str) or kind not in CPU | GPU | LAUNCH:
            text = kind if isinstance(kind, str) else "without a kind"
            if text in trace.unused or len(trace.unused) < 100:
                trace.unused[text] = trace.unused.get(text, 0) + 1
            return
        start, duration, name = event.get("ts"), event.get("dur"), event.get("name")
        if not isinstance(name, str) or not _is_time(start) or not _is_time(duration):
            trace.skipped += 1
            return
        given = event.get("args")
        args: Event = given if isinstance(given, dict) else {}
        if kind in CPU:
            self._add_cpu(event, args, start, duration, name)
        elif kind in GPU:
            self._add_gpu(args, start, duration, name)
        else:
            self._add_launch(self._thread(event), _id(args.get("correlation")), start)

    def _add_launch(self, thread: int, correlation: int, start: float) -> None:
        if correlation == NONE:
            return
        first, _ = self.trace.launches.setdefault(correlation, (thread, start))
        if self.trace.threads[first].process != self.trace.threads[thread].process:
            self.trace.unclear.add(correlation)

    def _add_cpu(self, event: Event, args: Event, start: float, duration: float, name: str) -> None:
        thread = self._thread(event)
        external, sequence = _id(args.get("External id")), _number(args.get("Sequence number"))
        is_annotation = event.get("cat") == "user_annotation"
        self.trace.threads[thread].add(
            start, duration, self.trace.names.number(name), external, sequence, is_annotation
        )
        stack = _stack(args)
        if stack and len(self.trace.stacks) < MOST_STACKS:
            self.trace.stacks[(thread, start)] = stack

    def _add_gpu(self, args: Event, start: float, duration: float, name: str) -> None:
        gpu = self.trace.gpu
        stacks = _stacks_of_kernel(args)
        if stacks and len(self.trace.gpu_stacks) < MOST_STACKS:
            self.trace.gpu_stacks[len(gpu)] = stacks
        gpu.starts.append(start)
        gpu.durations.append(duration)
        gpu.names.append(self.trace.names.number(name))
        gpu.correlation.append(_id(args.get("correlation")))
        gpu.external.append(_id(args.get("External id")))
        gpu.device.append(
            _number(args.get("device", args.get("inDevice")))
        )  # a copy between GPUs has the latter
        gpu.stream.append(_number(args.get("stream")))
        gpu.graph_node.append(_id(args.get("graph node id")))

    def _thread(self, event: Event) -> int:
        key = (str(event.get("pid")), str(event.get("tid")))
        number = self._threads.get(key)
        if number is None:
            number = self._threads[key] = len(self.trace.threads)
            process = self._processes.setdefault(key[0], len(self._processes))
            self.trace.threads.append(CpuThread(process))
        return number


def _is_time(value: object) -> TypeGuard[float]:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value < 1e18
    )


def _number(value: object) -> int:
    """Return a number that fits a column; -1 for any other value."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
        return value
    return NONE


def _id(value: object) -> int:
    """Return an id, which begins at 1: Kineto writes 0 for none."""
    return _number(value) or NONE


def _stacks_of_kernel(args: Event) -> tuple[str, ...]:
    """Return ``stack``, which torch writes to the kernels of generated code
    (``torch/_inductor/profiler.py``).

    A ``stack_trace`` at what ran on a GPU is an accident: torch writes it to whatever begins on a
    thread of this number while a node runs there, and the number of a stream, such as 7, may be
    that of a thread.
    """
    given = args.get("stack")
    stacks = given if isinstance(given, list) else [given]
    texts = [stack for stack in stacks[:MOST_OF_KERNEL] if isinstance(stack, str) and stack]
    return tuple(text[:LONGEST_STACK] for text in texts)


def _stack(args: Event) -> tuple[str, str] | None:
    """Return ``stack_trace`` and ``node_name``, which torch writes where it knows the node that an
    operator is of (``torch/profiler/_utils.py``,
    ``map_recorded_events_to_aten_ops_with_stack_trace``).
    """
    stack, node = args.get("stack_trace"), args.get("node_name")
    stack_text = stack[:LONGEST_STACK] if isinstance(stack, str) else ""
    node_name = node[:200] if isinstance(node, str) else ""
    if not stack_text and not node_name:
        return None
    return stack_text, node_name


# The text of a trace, piece by piece, unpacked where it is gzip. A file that ends early, or is
# damaged further on, gives what comes before.

PIECE = 1 << 20
"""Number of bytes that are unpacked at once, so that a small file cannot fill the memory."""

GZIP = b"\x1f\x8b"


class TraceText:
    """Yields the text of a file once, and then has the problems found in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.blake2b(digest_size=16)
        self.problem = ""
        """Why the text ends before the file does; empty where it does not."""
        self.packed_bytes = 0
        """Bytes of the file that were read so far."""

    @property
    def digest(self) -> str:
        """Return a digest of this file, if it was read completely."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[str]:
        """Yield the text. Bytes that are no UTF-8 are replaced. Raises OSError for a file that
        cannot be read.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for unpacked in self._unpacked():
            yield decoder.decode(unpacked)
        yield decoder.decode(b"", final=True)

    def _unpacked(self) -> Iterator[bytes]:
        with open_outside(self._path) as file:
            first = self._counted(file.read(PIECE))
            if not first.startswith(GZIP):
                while first:
                    yield first
                    first = self._counted(file.read(PIECE))
                return
            yield from self._members(first, file)

    def _members(self, packed: bytes, file: BinaryIO) -> Iterator[bytes]:
        """Yield the contents of a gzip file's members; there may be several."""
        unpack = zlib.decompressobj(wbits=31)
        while packed:
            try:
                yield unpack.decompress(packed, PIECE)
            except zlib.error:
                self.problem = "the packed file is damaged"
                return
            packed = unpack.unconsumed_tail
            if unpack.eof:
                packed = unpack.unused_data or self._counted(file.read(PIECE // 4))
                if not packed.startswith(GZIP):
                    return
                unpack = zlib.decompressobj(wbits=31)
            packed = packed or self._counted(file.read(PIECE // 4))
        self.problem = "the packed file ends early"

    def _counted(self, packed: bytes) -> bytes:
        self._digest.update(packed)
        self.packed_bytes += len(packed)
        return packed
