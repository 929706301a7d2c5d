"""These tests redact sessions: nothing of the program's text, names, constants, values and paths is
left, and all counts are the same.
"""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.session import SessionReader
from fx_explorer.session.in_page import write_session
from fx_explorer.session.redacting import hidden_lines, redact
from fx_explorer.session.users_words import names_defined_in, texts_in, torch_words
from tests.conftest import Captured

PROGRAM = '''
"""Zweckverband: the forecast of customers."""

import torch
from torch import nn

SCHLUESSEL = "hf_Zweckverband0123456789"


class KundenPrognose(nn.Module):
    def __init__(self):
        super().__init__()
        self.umsatzschicht = nn.Linear(24, 17)
        self.register_buffer("geheimwert", torch.full((17,), 0.271828))

    def forward(self, kundendaten):
        # Nachtrabatt
        zwischenstand = self.umsatzschicht(kundendaten) * 0.314159 + self.geheimwert
        print("Zwischenbericht", zwischenstand.shape)
        self.geheimwert.add_(1)
        kundensumme = torch.relu(zwischenstand)
        return kundensumme.sum() + 4711, kundensumme.view(-1), self.kundenblock(kundensumme)

    @torch.compiler.nested_compile_region
    def kundenblock(self, kundensumme):
        return kundensumme.cos()


model = KundenPrognose()
example_inputs = (torch.randn(5, 24),)
'''

OF_THE_PROGRAM = (
    "zweckverband", "schluessel", "kundenprognose", "kunden", "prognose", "umsatz", "geheim",
    "kundendaten", "zwischen", "nachtrabatt", "0.271828", "0.314159", "4711", "hf_",
)  # fmt: skip


@pytest.fixture(scope="module")
def sessions(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a session and its page, redacted."""
    folder = tmp_path_factory.mktemp("kundenordner")
    (folder / "vertraulich.py").write_text(PROGRAM)
    session = captured(folder / "vertraulich.py", "--record-trace", "--record-patterns")
    page = folder / "page.html"
    assert main(["report", str(session), "--format", "html", "--redact", "-o", str(page)]) == 0
    return session, page


NEW = (
    model.GraphValues, model.ValueFact, model.NodeMeta, model.RegionUse, model.KernelDecision,
    model.UnfusedPair, model.TraceAttempt, model.TracedCall, model.TraceStep, model.TracedNode,
    model.NearMatch,
)  # fmt: skip


def test_the_session_has_rows_of_each_table(sessions: tuple[Path, Path]) -> None:
    session, _ = sessions
    with SessionReader(session) as reader:
        assert [table for table in NEW if not reader.rows(table)] == []


def whole_text(session: Path) -> str:
    """Return every text and every cell of a session, and the bytes of its file."""
    parts = [session.read_bytes().decode("latin-1")]
    with SessionReader(session) as reader:
        for (number,) in reader.query("SELECT id FROM text"):
            parts.append(reader.text(number))
    with sqlite3.connect(session) as db:
        parts += db.iterdump()
    return "\n".join(parts)


def test_nothing_of_the_program_is_left(sessions: tuple[Path, Path], tmp_path: Path) -> None:
    _, page = sessions
    write_session(page, tmp_path / "redacted.fxs")
    text = f"{page.read_text()}\n{whole_text(tmp_path / 'redacted.fxs')}".lower()
    words = (*OF_THE_PROGRAM, "kundenordner", "vertraulich")
    # A number may be a part of a longer one: the address of an object.
    assert [word for word in words if re.search(rf"(?<!\d){word}(?!\d)", text)] == []


def test_no_eight_characters_of_the_source_are_left(
    sessions: tuple[Path, Path], tmp_path: Path
) -> None:
    _, page = sessions
    write_session(page, tmp_path / "redacted.fxs")
    text = f"{page.read_text()}\n{whole_text(tmp_path / 'redacted.fxs')}"
    left = []
    for line in PROGRAM.splitlines():
        for at in range(len(line) - 7):
            piece = line[at : at + 8]
            # Words of PyTorch's own stand on each page: "torch.nn", "forward(".
            words = re.findall(r"[a-z]{3,}", piece.lower())
            is_torchs = all(any(word in known for known in torch_words()) for word in words)
            if piece in text and not is_torchs:
                left.append(piece)
    assert left == []


def test_counts_are_the_same(
    sessions: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    session, _ = sessions
    assert main(["report", str(session)]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert main(["report", str(session), "--redact"]) == 0
    redacted = json.loads(capsys.readouterr().out)
    assert numbers(redacted) == numbers(whole)


def numbers(value: object, name: str = "") -> object:
    """Return a report with its numbers, lengths and shapes alone."""
    if isinstance(value, dict):
        # Values of settings may be paths or counts of the machine.
        return {key: numbers(item, key) for key, item in value.items() if key != "environment"}
    if isinstance(value, list):
        return value if name in ("shape", "stride") else [numbers(item) for item in value]
    return value if isinstance(value, int | float) else None


def test_names_are_the_same_everywhere(sessions: tuple[Path, Path], tmp_path: Path) -> None:
    session, page = sessions
    write_session(page, tmp_path / "redacted.fxs")
    with SessionReader(session) as whole, SessionReader(tmp_path / "redacted.fxs") as redacted:
        before, after = whole.rows(model.Node), redacted.rows(model.Node)
        stands_for = {}
        for old, new in zip(before, after, strict=True):
            assert (old.op, old.shape, old.dtype, old.stride) == (
                new.op, new.shape, new.dtype, new.stride,
            )  # fmt: skip
            assert stands_for.setdefault(old.name, new.name) == new.name
        assert [node.target for node in after if "relu" in node.target]
        assert len(set(stands_for.values())) == len(stands_for)
        kernels = [kernel.name for kernel in redacted.rows(model.Kernel)]
        assert kernels == [kernel.name for kernel in whole.rows(model.Kernel)]
        lines = [row.line for row in redacted.rows(model.LineNode)]
        assert lines == [row.line for row in whole.rows(model.LineNode)]


def test_a_redacted_session_says_so(
    sessions: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, page = sessions
    assert main(["report", str(page), "--format", "text"]) == 0
    assert "Redacted" in capsys.readouterr().out


def test_names_that_a_program_defines() -> None:
    source = (
        "import my.pack as mp\nclass A:\n  def f(self, b, *c):\n    self.d = e = b\n    return g"
    )
    assert set(names_defined_in(source)) == {"mp", "A", "f", "b", "c", "d", "e"}
    assert "x1" in set(names_defined_in("this is no Python: x1"))


def test_text_constants() -> None:
    assert list(texts_in("f('cuda', 'a b', 'Kunde')")) == ["a b", "Kunde"]


def test_lines_stay() -> None:
    assert hidden_lines("a\n\n  b\n") == "…\n\n…\n"


def test_a_session_is_not_redacted_twice_in_other_ways(
    sessions: tuple[Path, Path], tmp_path: Path
) -> None:
    _, page = sessions
    write_session(page, tmp_path / "redacted.fxs")
    with SessionReader(tmp_path / "redacted.fxs") as reader:
        once = [node.target for node in reader.rows(model.Node)]
    redact(tmp_path / "redacted.fxs")
    with SessionReader(tmp_path / "redacted.fxs") as reader:
        assert [node.target for node in reader.rows(model.Node)] == once
