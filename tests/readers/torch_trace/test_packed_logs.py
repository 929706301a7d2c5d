"""These tests check logs packed with zstd: the program that unpacks them, and its progress."""

from __future__ import annotations

import gzip
import sys
import types
from pathlib import Path

import pytest

from fx_explorer.command_line.log_progress import LogProgress
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.growing import Progress
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.packed import unpacker

zstandard = pytest.importorskip("zstandard")

LOG = next(iter(sorted((Path(__file__).parents[2] / "data" / "torch_trace").glob("*.log.gz"))))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    file = tmp_path / "x.log.zst"
    file.write_bytes(zstandard.compress(gzip.decompress(LOG.read_bytes())))
    return file


def test_pythons_own_zstd_is_taken_where_it_exists(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``compression.zstd`` of Python 3.14 has these two names; the package is not asked."""
    begun = []

    class ZstdDecompressor:
        def __init__(self) -> None:
            begun.append(self)
            self._own = zstandard.ZstdDecompressor().decompressobj()

        def decompress(self, data: bytes, max_length: int = -1) -> bytes:
            found: bytes = self._own.decompress(data)
            return found

        @property
        def eof(self) -> bool:
            return bool(self._own.eof)

        @property
        def unused_data(self) -> bytes:
            return bytes(self._own.unused_data)

    own = types.ModuleType("compression.zstd")
    own.ZstdDecompressor, own.ZstdError = ZstdDecompressor, zstandard.ZstdError  # type: ignore[attr-defined]
    package = types.ModuleType("compression")
    package.zstd = own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "compression", package)
    monkeypatch.setitem(sys.modules, "compression.zstd", own)
    read_log(packed, tmp_path / "own.fxs")
    assert begun
    monkeypatch.undo()
    read_log(packed, tmp_path / "package.fxs")
    with (
        SessionReader(tmp_path / "own.fxs") as one,
        SessionReader(tmp_path / "package.fxs") as other,
    ):
        assert one.meta("log") == other.meta("log")
        assert one.meta("log")["records"] > 0


def test_without_either_nothing_unpacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert unpacker() is None


class Terminal:
    """Terminal keeps the text that is written to it."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.written = ""
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_how_far_it_is_stands_on_a_terminal_and_is_gone_afterwards(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("fx_explorer.command_line.narration.EVERY_S", 0.0)
    out = Terminal(is_terminal=is_terminal)
    with LogProgress(out) as progress:  # type: ignore[arg-type]
        progress.show_progress(Progress(0.25, 812))
        shown = out.written
        progress.show_progress(Progress(1.0, 812, decoded=406))
    if not is_terminal:
        assert out.written == ""
        return
    assert "finding records ▰▰▰▱▱▱▱▱▱▱▱▱ 25 %, 812 compilations" in shown
    assert "decoding graphs" in out.written
    assert out.written.endswith("\r\x1b[K")


def test_reading_tells_how_far_it_is(packed: Path, tmp_path: Path) -> None:
    told: list[Progress] = []
    read_log(packed, tmp_path / "s.fxs", tell=told.append)
    assert told[-1].share_found == 1
    assert told[-1].decoded == told[-1].compilations > 0
