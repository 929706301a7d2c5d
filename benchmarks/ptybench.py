"""Drives a terminal program on a pseudo-terminal and times from the key written to the last byte of
the frame it painted.

The harness plays the terminal: it answers the synchronized-output query (DEC private mode 2026), so
that Textual brackets each frame and its end is known exactly. Times are milliseconds of
CLOCK_MONOTONIC. Linux only: CPU time is read from /proc.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

FRAME_START, FRAME_END = b"\x1b[?2026h", b"\x1b[?2026l"
SYNC_QUERY, SYNC_ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"

KEYS: Mapping[str, bytes] = {
    "down": b"\x1b[B",
    "up": b"\x1b[A",
    "pagedown": b"\x1b[6~",
    "pageup": b"\x1b[5~",
    "end": b"\x1b[F",
    "home": b"\x1b[H",
    "enter": b"\r",
    "tab": b"\t",
    "shift+tab": b"\x1b[Z",
    "escape": b"\x1b",
    "ctrl+q": b"\x11",
}


@dataclass(frozen=True)
class Painted:
    """What one key press caused."""

    last_ms: float | None
    """From the key to the last byte of the last frame; None when nothing was painted."""
    cpu_ms: float
    """CPU time of all threads until that frame was there; of the whole wait when nothing was
    painted.
    """
    cpu_all_ms: float
    """The same with what is done behind it: the app draws the next page while nobody waits."""
    frames: int
    size_bytes: int


def now_ms() -> float:
    return time.monotonic() * 1000


class Terminal:
    """A program in a pseudo-terminal of ``columns`` × ``rows``. Use as a context manager: it ends
    the program.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 200,
        rows: int = 50,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        variables = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            **(environ or {}),
        }
        for name in (
            "LINES",
            "COLUMNS",
            "NO_COLOR",
            "PYTHONDONTWRITEBYTECODE",
        ):  # an installed package has its bytecode
            variables.pop(name, None)
        size = struct.pack("HHHH", rows, columns, 0, 0)
        self.started_ms = now_ms()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, size)
            os.execvpe(command[0], list(command), variables)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)
        os.set_blocking(self._fd, False)
        self._unread = b""
        self._answered = False
        self.ended = False
        self.size_bytes = 0
        """How much was written so far."""
        self._tail = b""
        self.frame_ends: list[float] = []
        self.frames: list[bytes] = []
        self._last_output_ms = self.started_ms

    def _pump(self, timeout_ms: float) -> bool:
        """Read what there is. False when nothing came."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, timeout_ms) / 1000)
        if not ready:
            return False
        try:
            data = os.read(self._fd, 1 << 20)
        except OSError:  # the other side closed the terminal: Linux says EIO
            data = b""
        if not data:
            self.ended = True
            return False
        self._last_output_ms = now_ms()
        self.size_bytes += len(data)
        self._tail = (self._tail + data)[-4000:]
        self._unread += data
        if not self._answered and SYNC_QUERY in self._unread:
            self._answered = True
            os.write(self._fd, SYNC_ANSWER)
        self._cut_frames()
        return True

    def _cut_frames(self) -> None:
        while (end := self._unread.find(FRAME_END)) >= 0:
            start = max(self._unread.find(FRAME_START), 0)
            self.frame_ends.append(self._last_output_ms)
            self.frames.append(self._unread[start:end])
            self._unread = self._unread[end + len(FRAME_END) :]

    def wait_for(self, text: str, timeout_ms: float = 60_000) -> float:
        """Milliseconds from the start to the end of the first frame that has ``text``. Raises
        TimeoutError.
        """
        wanted, seen, deadline = text.encode(), 0, now_ms() + timeout_ms
        while now_ms() < deadline and not self.ended:
            for index in range(seen, len(self.frames)):
                if wanted in self.frames[index]:
                    return self.frame_ends[index] - self.started_ms
            seen = len(self.frames)
            self._pump(20)
        raise TimeoutError(f"no frame with {text!r}; the last output was {self._tail!r}")

    def first_output(self, text: str, timeout_ms: float = 60_000) -> float:
        """Milliseconds from the start until ``text`` was written, inside a frame or not. Raises
        TimeoutError.
        """
        deadline = now_ms() + timeout_ms
        while text.encode() not in self._tail and now_ms() < deadline and not self.ended:
            self._pump(5)
        if text.encode() not in self._tail:
            raise TimeoutError(f"{text!r} was not written; the last output was {self._tail!r}")
        return self._last_output_ms - self.started_ms

    def settle(self, quiet_ms: float = 200, timeout_ms: float = 60_000) -> None:
        """Wait until nothing was written for ``quiet_ms``."""
        deadline = now_ms() + timeout_ms
        self._last_output_ms = now_ms()
        while now_ms() < deadline and not self.ended and now_ms() - self._last_output_ms < quiet_ms:
            self._pump(5)

    def write(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def press(self, key: str, quiet_ms: float = 60, timeout_ms: float = 20_000) -> Painted:
        """Write ``key`` and wait until what it painted is complete."""
        self.frames.clear()
        self.frame_ends.clear()
        before_bytes, before_cpu, start = self.size_bytes, cpu_ms(self.pid), now_ms()
        self.write(KEYS.get(key, key.encode()))
        painted_cpu, frames = None, 0
        while now_ms() < start + timeout_ms and not self.ended:
            self._pump(1)
            if len(self.frame_ends) > frames:
                painted_cpu, frames = cpu_ms(self.pid), len(self.frame_ends)
            silence = now_ms() - max(self._last_output_ms, start)
            if silence > (quiet_ms if self.frame_ends else 6 * quiet_ms):
                break
        last = self.frame_ends[-1] - start if self.frame_ends else None
        all_cpu = cpu_ms(self.pid) - before_cpu
        to_paint = all_cpu if painted_cpu is None else painted_cpu - before_cpu
        return Painted(last, to_paint, all_cpu, len(self.frames), self.size_bytes - before_bytes)

    def close(self) -> None:
        """End the program: politely, then not."""
        with contextlib.suppress(OSError):
            self.write(KEYS["ctrl+q"])
        deadline = now_ms() + 3000
        while now_ms() < deadline and not self.ended:
            self._pump(50)
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def cpu_ms(pid: int) -> float:
    """CPU time of all threads of a process."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e6


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Rss:")) / 1024


def percentile(values: Sequence[float], percent: float) -> float:
    """With linear interpolation, as numpy has it."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
