"""What the instruction under the cursor does, and what its control word asks for, in words."""

from __future__ import annotations

from functools import lru_cache

from fx_explorer.analysis.documents import Place, text_of
from fx_explorer.analysis.kernel_ir.control_words import (
    Control,
    control_in_words,
    control_of,
    control_text,
    is_known,
)
from fx_explorer.analysis.kernel_ir.instruction_parts import is_assembly, name_in
from fx_explorer.analysis.kernel_ir.live_registers import live_registers
from fx_explorer.analysis.kernel_ir.opcodes.explained import (
    EXPLAINED_LEVELS,
    NOT_EXPLAINED,
    explained,
)
from fx_explorer.model import LEVELS, Level
from fx_explorer.session import SessionReader
from fx_explorer.tui.inspector.entry import Entry
from fx_explorer.tui.terminal.wrapping import wrapped

ROW_CELLS = 56

COUNTED = "counted from what each instruction reads and writes"

READ_FROM = "read off bits 105 to 125 of the instruction (maxas, CuAssembler; NVIDIA does not document them)"


def instruction_words(reader: SessionReader, place: Place) -> list[str]:
    """Say in short what an instruction does and waits for; empty for a line that is none."""
    level, name = _instruction(reader, place)
    if not name or level not in EXPLAINED_LEVELS:
        return []
    found = explained(level, name)
    said = f"{name}: {found.sentence.removesuffix('.')}" if found else f"{name}: {NOT_EXPLAINED}"
    word = _control(reader, place)
    return [said, *([", ".join(control_in_words(word))] if word else [])]


def instruction_entries(reader: SessionReader, place: Place) -> list[Entry]:
    """Return all that is known of an instruction by itself, an entry a fact."""
    level, name = _instruction(reader, place)
    if not name or level not in EXPLAINED_LEVELS:
        return []
    found = explained(level, name)
    rows = wrapped(found.sentence if found else f"{NOT_EXPLAINED.capitalize()}.", ROW_CELLS)
    told = [Entry("opcode", name), *(Entry("", row) for row in rows)]
    told += [
        Entry("", f".{modifier}: {words}") for modifier, words in (found.modifiers if found else ())
    ]
    word = _control(reader, place)
    if word:
        told.append(Entry("control", f"{word.address} {control_text(word)}", note=READ_FROM))
        told += [Entry("", part) for part in control_in_words(word)]
    live = (
        live_registers(text_of(reader, place.document)).get(place.line + 1)
        if level == "sass"
        else None
    )
    return told + (
        [] if live is None else [Entry("live", f"{live} registers of a thread", note=COUNTED)]
    )


def _control(reader: SessionReader, place: Place) -> Control | None:
    text = text_of(reader, place.document) if place.document.language == "sass" else ""
    if not text or not is_known(text):
        return None
    lines = _lines(text)
    return (
        control_of(lines[place.line], lines[place.line + 1])
        if place.line + 1 < len(lines)
        else None
    )


def _instruction(reader: SessionReader, place: Place) -> tuple[Level, str]:
    """Return the level and the name of the instruction at a place; no name where there is none."""
    level = next(
        (level for level in LEVELS if level == place.document.language and is_assembly(level)), None
    )
    if level is None:
        return "ttir", ""
    lines = _lines(text_of(reader, place.document))
    return level, name_in(level, lines[place.line]) if place.line < len(lines) else ""


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    """Return the lines of a text. The texts looked at last are remembered: this is asked at every move."""
    return text.split("\n")
