"""This module reads the events of a trace of ``torch.profiler`` one after the other, and has the
columns that store them: about 40 bytes an event, and each name once.

The events are read from a text that comes in pieces: a trace of 500 MB is never in memory as a
whole. A trace is ``{…, "traceEvents": [{…}, {…}]}``, or only the list (the JSON Array Format of
"Trace Event Format", which Chrome and Perfetto read). What is no event is skipped and counted. What
an event says is read in kineto_reading.py.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

NONE = -1

MOST_NESTED = 256
"""Maximum number of enclosing events that are visited."""

ROUNDED = 1e-3
"""Microseconds by which an event may seem to end after its enclosing one, because times are
rounded.
"""

LONGEST_NAME = 400
"""Maximum number of characters of a name. Names of C++ kernels can have thousands, because of their
template arguments.
"""


class NameTable:
    """Names by number: a trace repeats the same few."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.all: list[str] = []

    def number(self, name: str) -> int:
        name = name[:LONGEST_NAME]
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.all)
            self.all.append(name)
        return number


class CpuThread:
    """The operators and annotations of one thread of the program, nested in one another."""

    def __init__(self, process: int = 0) -> None:
        self.process = process
        """Number of the process: a trace that was merged from several has more than one."""
        self.starts = array("d")
        """Start of each event, in microseconds like all times of a trace."""
        self.ends = array("d")
        self.names = array("L")
        self.external = array("q")
        """``External id`` of each event: the same for GPU work and the operator that launched it;
        -1 for none.
        """
        self.sequence = array("q")
        """``Sequence number`` of each event: the same for a forward function and its backward; -1
        for none. torch counts in each thread separately (``aten/src/ATen/SequenceNumber.cpp``).
        """
        self.annotations = array("b")
        """For each event, 1 if it is one of the program's own annotations (``record_function``), 0
        if it is an operator.
        """
        self.parents = array("q")
        """For each event, the index of the enclosing event; -1 for none. Empty before ``nest``."""
        self._jumps = array("q")

    def add(
        self,
        start: float,
        duration: float,
        name: int,
        external: int,
        sequence: int,
        is_annotation: bool,
    ) -> None:
        self.starts.append(start)
        self.ends.append(start + duration)
        self.names.append(name)
        self.external.append(external)
        self.sequence.append(sequence)
        self.annotations.append(is_annotation)

    def nest(self) -> None:
        """Sort the events, and find for each the event around it."""
        order = sorted(range(len(self.starts)), key=lambda at: (self.starts[at], -self.ends[at]))
        for name in ("starts", "ends", "names", "external", "sequence", "annotations"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, (column[at] for at in order)))
        self.parents = array("q", bytes(8 * len(order)))
        self._jumps = array("q", bytes(8 * len(order)))
        depths = array("q", bytes(8 * len(order)))
        around: list[int] = []
        for at, end in enumerate(self.ends):
            # Events that two sources wrote may overlap without one being in the other. One that
            # ends before this one is around nothing that comes later and this one is not: each is
            # looked at once.
            while around and self.ends[around[-1]] < end - ROUNDED:
                around.pop()
            while around and self.ends[around[-1]] <= self.starts[at]:
                around.pop()
            parent = self.parents[at] = around[-1] if around else NONE
            self._jumps[at] = self._jump(parent, depths)
            depths[at] = depths[parent] + 1 if parent != NONE else 0
            around.append(at)

    def _jump(self, parent: int, depths: Sequence[int]) -> int:
        """Return an enclosing event to jump to: with these jumps (Myers' skip pointers), any is
        reached in a number of steps that grows with the logarithm of the depth.
        """
        over = self._jumps[parent] if parent != NONE else NONE
        beyond = self._jumps[over] if over != NONE else NONE
        if beyond == NONE:
            return parent
        is_even = depths[parent] - depths[over] == depths[over] - depths[beyond]
        return beyond if is_even else parent

    def at(self, time: float) -> int:
        """Return the innermost event at a time; -1 for none."""
        event = bisect_right(self.starts, time) - 1
        while event != NONE and self.ends[event] < time:
            jump = self._jumps[event]
            is_over = jump == NONE or self.ends[jump] >= time
            event = self.parents[event] if is_over else jump
        return event

    def outwards(self, event: int) -> Iterator[int]:
        """Yield an event and its enclosing ones, innermost first, up to a limit."""
        for _ in range(MOST_NESTED):
            if event == NONE:
                return
            yield event
            event = self.parents[event]


class GpuWork:
    """Kernels, copies and fills that ran on GPUs."""

    def __init__(self) -> None:
        self.starts = array("d")
        self.durations = array("d")
        self.names = array("L")
        self.correlation = array("q")
        """A number that is the same for GPU work and the call of the CUDA runtime that launched it;
        -1 for none. All work of one replay of a CUDA graph has that of its ``cudaGraphLaunch``.
        """
        self.external = array("q")
        self.device = array("q")
        self.stream = array("q")
        self.graph_node = array("q")
        """``graph node id``: nodes of a CUDA graph ascend in the order of their capture, on any
        stream; -1 outside of graphs.
        """

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class Trace:
    """A trace that was read."""

    names: NameTable = field(default_factory=NameTable)
    threads: list[CpuThread] = field(default_factory=list)
    gpu: GpuWork = field(default_factory=GpuWork)
    launches: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Correlation → the thread that launched, and when."""
    unclear: set[int] = field(default_factory=set)
    """Correlations that several processes used: each process counts for itself, and GPU work does
    not name its process.
    """
    stacks: dict[tuple[int, float], tuple[str, str]] = field(default_factory=dict)
    """(thread, start) of an operator → ``stack_trace`` and ``node_name``, which later releases of
    torch write.
    """
    gpu_stacks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Index of GPU work → the stacks of the operations that it computes."""
    devices: list[str] = field(default_factory=list)
    """Names of the GPUs, by number."""
    events: int = 0
    """Number of events of any kind, including those that are not used."""
    unused: dict[str, int] = field(default_factory=dict)
    """Kind of event that is not used (``python_function``) → number of events."""
    skipped: int = 0
    """Number of events without a time or a name, and of other invalid entries."""
    problem: str = ""
    """Why the trace ends before its end; empty where it does not."""
    digest: str = ""

    def name(self, number: int) -> str:
        return self.names.all[number]


# The events of a trace, one after the other.


LONGEST_EVENT = 8 << 20
"""Maximum number of characters of an event; a longer one is skipped."""

LONGEST_HEAD = 16 << 20
"""Maximum number of characters before the events: properties of the devices, and the program's own
notes.
"""

_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BEGINNING = re.compile(r'\{\s*"(?:ph|name|cat|pid|ts)"\s*:')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()

Event = dict[str, object]


class EventStream:
    """Yields the events of a trace. Afterwards it knows how many were skipped."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._has_more = True
        self.head = ""
        """The text before the list of events."""
        self.is_trace = False
        """Whether a list of events was found."""
        self.is_whole = False
        """Whether the list of events was closed; otherwise the file was cut off."""
        self.skipped = 0
        """Number of entries that are not events."""

    def events(self) -> Iterator[Event]:
        if not self._find_list():
            return
        while True:
            self._skip_between()
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "]":
                self.is_whole = True
                return
            event = self._next()
            if isinstance(event, dict):
                yield event
            elif event is not None:
                self.skipped += 1

    def _find_list(self) -> bool:
        while self._has_more and len(self._text) < LONGEST_HEAD:
            match = _EVENTS.search(self._text)
            if match:
                self.head, self._at, self.is_trace = self._text[: match.start()], match.end(), True
                return True
            if self._text.lstrip()[:1] == "[":
                self._at, self.is_trace = self._text.index("[") + 1, True
                return True
            if self._text.strip() and self._text.lstrip()[:1] != "{":
                return False
            self._read()
        return False

    def _read(self) -> bool:
        """Read another piece of text. Returns False at the end of the file."""
        piece = next(self._pieces, None)
        if piece is None:
            self._has_more = False
            return False
        if self.is_trace:
            self._text = self._text[self._at :] + piece
        else:
            self._text = self._text + piece
        self._at = 0
        return True

    def _skip_between(self) -> None:
        while True:
            match = _BETWEEN.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._read():
                return

    def _next(self) -> object:
        """Return the JSON value at the present position; None if there is none, or it is not
        complete yet.
        """
        while True:
            try:
                event, self._at = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(self._text) - 16 or error.msg.startswith(
                    ("Unterminated", "Invalid \\")
                )
                if is_cut and len(self._text) - self._at < LONGEST_EVENT and self._read():
                    continue
            except (ValueError, RecursionError):
                pass  # a number of thousands of digits, a depth that no event has
            else:
                return event
            if self._is_cut_off():
                return None
            self.skipped += 1
            self._to_next_beginning()
            return None

    def _is_cut_off(self) -> bool:
        """Return whether the text ends within the event, and go to the end if so."""
        if self._has_more or _BEGINNING.search(self._text, self._at + 1):
            return False
        self._at = len(self._text)
        return True

    def _to_next_beginning(self) -> None:
        """Go on where the next event seems to begin."""
        self._at += 1
        while not (match := _BEGINNING.search(self._text, self._at)):
            self._at = max(self._at, len(self._text) - 64)
            if not self._read():
                self._at = len(self._text)
                return
        self._at = match.start()


def devices(head: str) -> list[str]:
    """Return the names of the GPUs before the events; empty if they cannot be read."""
    match = re.search(r'"deviceProperties"\s*:\s*', head)
    if not match:
        return []
    try:
        listed, _ = _DECODER.raw_decode(head, match.end())
    except (ValueError, RecursionError):
        return []
    if not isinstance(listed, list):
        return []
    names = [device.get("name") for device in listed if isinstance(device, dict)]
    return [name for name in names if isinstance(name, str)]
