"""This module finds what a CUDA memory snapshot says: what is held at the peak, by the line that
allocated it and by kind, how much of the reserved memory is free, and which allocation failed.

The state at the end is what the segments have. From there the recorded history is walked back, so
that the peak is right even where the history begins late or lost its beginning. Sizes are those
that were asked for, in the allocator's steps of 512 bytes; torch.cuda.max_memory_allocated() may be
a little more, where the allocator gives a larger piece.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer.model import Frame
from fx_explorer.readers.memory_snapshot import MemoryEvent, MemorySegment, MemorySnapshot
from fx_explorer.readers.torch_trace.places import is_torch

ROUNDED_TO = 512
"""Bytes in which the allocator counts (kMinBlockSize, c10/cuda/CUDACachingAllocator.cpp)."""

_GENERATED = re.compile(r"(?:^|/)(?P<stem>c[a-z2-7]{51})\.py$")
"""Matches a file of Inductor's: its name is the digest of the code (torch/_inductor/codecache.py,
``code_hash``).
"""

COMPILED = "compiled code"
OPTIMIZER = "the optimizer"
PARAMETERS = "parameters and buffers, made or moved"
BACKWARD = "the backward, in eager mode"
DISTRIBUTED = "torch.distributed"
EAGER = "eager mode"
NO_STACK = "no Python stack (threads of the backward, C++)"
BEFORE = "allocated before the recording"
NOT_RECORDED = "allocated while no stacks were recorded"

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (OPTIMIZER, re.compile(r"/torch/optim/")),
    (DISTRIBUTED, re.compile(r"/torch/distributed/")),
    (BACKWARD, re.compile(r"/torch/autograd/(?:graph|__init__|function)\.py$|/torch/_tensor\.py$")),
)
"""Kind → the files whose functions allocate for it."""

_MAKES_PARAMETERS = ("_apply", "__init__", "reset_parameters", "register_buffer")


@dataclass(frozen=True, slots=True)
class HeldAllocation:
    """An allocation that is held at the peak."""

    size_bytes: int
    frames: tuple[Frame, ...]
    is_recorded: bool = True
    """Whether the history has its allocation."""

    @property
    def place(self) -> Frame | None:
        """Return the innermost frame outside of torch and of generated code; None without one."""
        for frame in self.frames:
            if not is_torch(frame.file) and not generated_stem(frame.file) and frame.line > 0:
                return frame
        return None

    @property
    def generated(self) -> Frame | None:
        """Return the frame of the generated code that allocated it; None for any other."""
        return next((frame for frame in self.frames if generated_stem(frame.file)), None)

    @property
    def kind(self) -> str:
        if not self.frames:
            return NO_STACK if self.is_recorded else BEFORE
        if self.generated:
            return COMPILED
        for kind, files in _KINDS:
            if any(files.search(frame.file) for frame in self.frames):
                return kind
        if any(_makes_parameters(frame) for frame in self.frames):
            return PARAMETERS
        return EAGER


def generated_stem(file: str) -> str:
    """Return the name of a file of Inductor's without its suffix; empty for any other file."""
    match = _GENERATED.search(file)
    return match["stem"] if match else ""


def _makes_parameters(frame: Frame) -> bool:
    return "/torch/nn/modules/" in frame.file and frame.function in _MAKES_PARAMETERS


@dataclass(frozen=True, slots=True)
class Reserved:
    """What the allocator has of a device at the end of the snapshot, in bytes."""

    segments: int
    reserved: int
    in_use: int
    free: int
    """Free for reuse, in all segments."""
    returnable: int
    """Free, in segments that nothing uses."""
    largest: int
    """The largest free piece."""


@dataclass(frozen=True, slots=True)
class FailedAllocation:
    """An allocation that failed for want of memory."""

    wanted: int
    device_free: int
    allocated: int
    """What was allocated then."""
    frame: Frame | None


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """What the snapshot says of one device."""

    device: int
    peak_bytes: int
    end_bytes: int
    held: tuple[HeldAllocation, ...]
    """All that is held at the peak."""
    reserved: Reserved
    events: int
    """Events of the history; 0 without one."""
    failed: tuple[FailedAllocation, ...] = ()

    def kind_of(self, held: HeldAllocation) -> str:
        """Return the purpose of an allocation, from its stack."""
        if held.kind == BEFORE and not self.events:
            return NOT_RECORDED
        return held.kind

    @property
    def by_kind(self) -> dict[str, int]:
        """Return bytes by kind, the most first."""
        sums: dict[str, int] = defaultdict(int)
        for held in self.held:
            sums[self.kind_of(held)] += held.size_bytes
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def device_peaks(snapshot: MemorySnapshot) -> list[DevicePeak]:
    """Return the devices that have memory or a history, the highest peak first."""
    devices = {segment.device for segment in snapshot.segments}
    devices |= {number for number, events in enumerate(snapshot.events) if events}
    peaks = []
    for device in sorted(devices):
        segments = [segment for segment in snapshot.segments if segment.device == device]
        events = snapshot.events[device] if device < len(snapshot.events) else ()
        peaks.append(_DeviceHistory(device, segments, events).peak())
    peaks.sort(key=lambda peak: -peak.peak_bytes)
    return peaks


@dataclass
class _DeviceHistory:
    device: int
    segments: Sequence[MemorySegment]
    events: Sequence[MemoryEvent]
    at_end: dict[int, HeldAllocation] = field(default_factory=dict)
    """Address → what is allocated at the end."""

    def __post_init__(self) -> None:
        allocated = {event.address for event in self.events if event.action == "alloc"}
        for segment in self.segments:
            for block in segment.blocks:
                if block.is_allocated:
                    is_recorded = block.address in allocated
                    size_bytes = rounded(block.requested_bytes)
                    self.at_end[block.address] = HeldAllocation(
                        size_bytes, block.frames, is_recorded
                    )

    def peak(self) -> DevicePeak:
        before = self._before_the_history()
        highest, at, failed = self._highest(before)
        held = self._held_at(before, at)
        return DevicePeak(
            self.device,
            highest,
            _total(self.at_end),
            tuple(held.values()),
            _reserved(self.segments),
            len(self.events),
            tuple(failed),
        )

    def _before_the_history(self) -> dict[int, HeldAllocation]:
        """Return what was allocated when the history began."""
        held = dict(self.at_end)
        for event in reversed(self.events):
            if event.action == "alloc":
                held.pop(event.address, None)
            elif event.action == "free_requested":
                held[event.address] = HeldAllocation(
                    rounded(event.size_bytes), (), is_recorded=False
                )
        return held

    def _highest(
        self, before: Mapping[int, HeldAllocation]
    ) -> tuple[int, int, list[FailedAllocation]]:
        """Return the peak in bytes, the number of events until then, and what failed."""
        sizes = {address: held.size_bytes for address, held in before.items()}
        total = highest = sum(sizes.values())
        at = 0
        failed = []
        for number, event in enumerate(self.events, start=1):
            if event.action == "alloc":
                total += rounded(event.size_bytes) - sizes.get(event.address, 0)
                sizes[event.address] = rounded(event.size_bytes)
                if total > highest:
                    highest, at = total, number
            elif event.action == "free_requested":
                total -= sizes.pop(event.address, 0)
            elif event.action == "oom":
                place = HeldAllocation(0, event.frames).place
                row = FailedAllocation(event.size_bytes, event.free_bytes, total, place)
                failed.append(row)
        return highest, at, failed

    def _held_at(self, before: Mapping[int, HeldAllocation], at: int) -> dict[int, HeldAllocation]:
        held = dict(before)
        for event in self.events[:at]:
            if event.action == "alloc":
                held[event.address] = HeldAllocation(rounded(event.size_bytes), event.frames)
            elif event.action == "free_requested":
                held.pop(event.address, None)
        return held


def rounded(size_bytes: int) -> int:
    """Return the bytes that the allocator counts for an allocation."""
    return max(ROUNDED_TO, -(-size_bytes // ROUNDED_TO) * ROUNDED_TO)


def _total(held: Mapping[int, HeldAllocation]) -> int:
    return sum(allocation.size_bytes for allocation in held.values())


def _reserved(segments: Iterable[MemorySegment]) -> Reserved:
    count = reserved = free = returnable = largest = 0
    for segment in segments:
        count += 1
        reserved += segment.size_bytes
        free_blocks = [block.size_bytes for block in segment.blocks if block.is_free]
        free += sum(free_blocks)
        largest = max(largest, *free_blocks, 0)
        if not segment.is_in_use:
            returnable += sum(free_blocks)
    return Reserved(count, reserved, reserved - free, free, returnable, largest)
