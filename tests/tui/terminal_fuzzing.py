"""This module sends random bytes to the app's terminal. The app must still work after them, at
every size of the terminal.

``python -m tests.tui.terminal_fuzzing --bytes 20000 --seed 0`` drives the app in real
pseudo-terminals, which takes minutes. What it types may leave the app, which is started again then.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "tests" / "data" / "screens" / "whole.fxs.gz"
SIZES = ((80, 24), (120, 40), (200, 50))

PIECE = 64
"""Bytes that are written at once."""

QUIET_S = 0.05
"""Seconds without output after which the app counts as painted."""

HANG_S = 10.0
"""Most seconds for which the app may not react to its input."""

LEFT = b"\x1b[<u\x1b[?1049l"
"""The bytes that Textual writes when the app ends."""

PIECES = (
    b"\x1b[M !!",
    b"\x1b[M\xff\xff\xff",
    b"\x1b[M",
    b"\x1b[<0;30;10M\x1b[<0;30;10m",
    b"\x1b[<35;99999999;1M",
    b"\x1b[200~paste \xe9\xff\n",
    b"\x1b[201~",
    b"\x1b]52;c;",
    b"\x1bP1$r",
    b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b[?62;22c",
    b"\x1b[9999999999u",
    b"\x1b[55296;1u",
    b"\x1b[48;0;0;0;0t",
    b"\x1b[48;9999999;9999999;1;1t",
    b"\x1b[?2048;1$y",
    b"\x1b[I\x1b[O",
    b"\x1b[999999;999999R",
    b"\xe2\x82",
    b"\xc3",
    b"\0",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
)  # fmt: skip
"""What terminals send, whole and damaged."""


def random_bytes(chance: random.Random, count: int) -> bytes:
    """Return bytes of which most are any byte, and some belong to a sequence."""
    sent = b""
    while len(sent) < count:
        sent += chance.choice(PIECES) if chance.random() < 0.1 else chance.randbytes(1)
    return sent[:count]


@dataclass
class App:
    """The app in a pseudo-terminal of its own."""

    command: list[str]
    columns: int
    rows: int
    folder: Path
    shown: bytes = field(default=b"", init=False)

    def __post_init__(self) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(self.folder)
            os.environ.update(
                TERM="xterm-256color", EDITOR="true", VISUAL="true", HOME=str(self.folder)
            )
            for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
                os.environ.pop(name, None)
            os.environ.update(PYTHONPATH=str(ROOT), PYTHONFAULTHANDLER="1")
            os.execv(self.command[0], self.command)
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        os.set_blocking(self._terminal, False)

    def read(self, quiet_s: float) -> bool:
        """Read until no output came for ``quiet_s``. Returns whether the app is still running."""
        while select.select([self._terminal], [], [], quiet_s)[0]:
            try:
                part = os.read(self._terminal, 1 << 16)
            except OSError:  # the other end is closed
                return False
            if not part:
                return False
            self.shown = (self.shown + part)[-200_000:]
        return True

    def began(self) -> bool:
        """Read until the app reads its terminal by itself."""
        until = time.monotonic() + 60
        while b"\x1b[?2004h" not in self.shown and time.monotonic() < until:
            if not self.read(0.2):
                return False
        return self.read(0.5)

    def write(self, sent: bytes) -> bool:
        """Write all of it. Returns whether the app took it before it was taken to hang."""
        self.go_on()
        until = time.monotonic() + HANG_S
        while sent and time.monotonic() < until:
            if not select.select([], [self._terminal], [], 0)[1]:
                if not self.read(QUIET_S):
                    return True
                continue
            sent = sent[os.write(self._terminal, sent) :]
        return not sent

    def go_on(self) -> None:
        """Wake the app where Ctrl+Z has suspended it."""
        if "\nState:\tT" in Path(f"/proc/{self.pid}/status").read_text():
            os.kill(self.pid, signal.SIGCONT)

    def exit_code(self, wait_s: float) -> int | None:
        """Return how the app ended; None while it runs."""
        until = time.monotonic() + wait_s
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > until:
                return None
            self.read(0.05)

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        most = status.partition("VmHWM:")[2].split()  # a process that has ended has no memory
        return int(most[0]) / 1024 if most else 0.0

    def stack(self) -> str:
        """End the app, and return where its threads were."""
        os.kill(self.pid, signal.SIGABRT)
        self.exit_code(5)
        return self.shown[-6000:].decode(errors="backslashreplace")

    def close(self) -> None:
        os.close(self._terminal)


def main() -> int:
    parser = argparse.ArgumentParser(description=" ".join(__doc__.partition("\n\n")[0].split()))
    parser.add_argument("--bytes", type=int, default=20_000, help="for each size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--session", type=Path, help="instead of one of the tests'")
    arguments = parser.parse_args()
    problems = 0
    for columns, rows in SIZES:
        problems += _fuzz(columns, rows, arguments)
    return int(bool(problems))


def _fuzz(columns: int, rows: int, arguments: argparse.Namespace) -> int:
    chance = random.Random(f"{arguments.seed} {columns}x{rows}")
    left, starts, problems, most_mb = arguments.bytes, 0, 0, 0.0
    while left > 0:
        with tempfile.TemporaryDirectory() as folder:
            app = App(_command(Path(folder), arguments.session), columns, rows, Path(folder))
            starts += 1
            problem, used, memory_mb = _typed(app, chance, left)
            app.close()
        left -= used
        most_mb = max(most_mb, memory_mb)
        if problem:
            problems += 1
            print(f"{columns}x{rows}, {arguments.bytes - left} bytes: {problem}")
    print(
        f"{columns}x{rows}: {arguments.bytes} bytes, {starts} starts, {problems} problems, "
        f"{most_mb:.0f} MB at most"
    )
    return problems


def _command(folder: Path, session: Path | None) -> list[str]:
    given = folder / "session.fxs"
    if session:
        shutil.copy(session, given)
    else:
        import gzip

        given.write_bytes(gzip.decompress(SESSION.read_bytes()))
    return [sys.executable, "-m", "fx_explorer", str(given)]


def _typed(app: App, chance: random.Random, left: int) -> tuple[str, int, float]:
    """Write bytes until there are enough or the app has ended. Returns what went wrong, the bytes
    that were written, and the memory of the app.
    """
    if not app.began():
        return f"the app did not begin: {app.shown[-500:]!r}", left, 0.0
    used, memory_mb = 0, 0.0
    while used < left:
        memory_mb = app.memory_mb()
        sent = random_bytes(chance, min(PIECE, left - used))
        used += len(sent)
        if not app.write(sent):
            return f"the app hangs at {sent!r}: {app.stack()}", used, memory_mb
        if not app.read(QUIET_S):
            break
    ended = app.exit_code(0 if used >= left else 5)
    if ended is None:
        os.kill(app.pid, signal.SIGTERM)
        app.go_on()
        ended = app.exit_code(HANG_S)
        if ended is None:
            return f"the app does not end at SIGTERM: {app.stack()}", used, memory_mb
        ended = 0 if ended in (143, -signal.SIGTERM) else ended
    if LEFT in app.shown and ended in (-signal.SIGINT, -signal.SIGQUIT):
        ended = 0  # the app had left its terminal, where Ctrl+C and Ctrl+\\ are signals
    if b"Traceback" in app.shown or ended != 0:
        return f"the app ended with {ended}: {app.shown[-3000:]!r}", used, memory_mb
    return "", used, memory_mb


if __name__ == "__main__":
    sys.exit(main())
