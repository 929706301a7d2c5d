"""This module gives the inspector the facts about a kernel and about the lines of its levels. It is
imported when needed.
"""

from __future__ import annotations

from functools import lru_cache

from fx_explorer import model
from fx_explorer.analysis.documents import Place, lines_of, text_of
from fx_explorer.analysis.kernel_documents import (
    build_of_document,
    build_of_level,
    builds_here,
    kernel_of,
    level_document,
    lines_in_level,
    source_here,
    triton_lines,
)
from fx_explorer.analysis.kernel_lines import instruction_lines, sass_instruction_lines
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.assembly_text import is_assembly, name_in
from fx_explorer.instruments.kernels.gpu_limits import (
    card,
    measured_card,
    microseconds,
    not_described,
)
from fx_explorer.instruments.kernels.instructions import (
    COUNTED_ONCE,
    EXPLAINED_LEVELS,
    NOT_EXPLAINED,
    explained,
)
from fx_explorer.instruments.kernels.kernel_facts import KernelFact, in_short, kernel_facts
from fx_explorer.instruments.kernels.kernel_times import describe_speed, kernel_speed
from fx_explorer.instruments.kernels.launched import profiled_kernel
from fx_explorer.instruments.kernels.live_registers import (
    Control,
    control_of,
    control_text,
    describe_control,
    is_known,
    line_cost,
    live_registers,
)
from fx_explorer.model import LEVELS, KernelBuild, Level
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.tui.content.destinations import Entry
from fx_explorer.tui.content.shown_levels import LEVEL_TITLES

FOUND = "read from the compilers' own line information (loc, !dbg, .loc, nvdisasm)"
NO_LINE = "the compiler added this: it belongs to no line of the kernel"


def describe_level(reader: SessionReader, place: Place) -> list[str]:
    """Describe where a line of a level is, and from which Triton lines it was made."""
    build = build_of_level(reader, place.document)
    if build is None:
        return []
    here, parts = f"{_level(place)}:{place.line + 1}", describe_instruction(reader, place)
    made_from = [f"from {entry.text}" for entry in _origin_entries(reader, build, place)]
    return [here, *parts, *(made_from or [NO_LINE] * _is_instruction(reader, place))]


def _is_instruction(reader: SessionReader, place: Place) -> bool:
    text = text_of(reader, place.document)
    if place.document.language == "sass":
        return place.line + 1 in sass_instruction_lines(text)
    return place.document.language not in ("ptx", "amdgcn") or place.line + 1 in instruction_lines(
        text
    )


def describe_kernel(reader: SessionReader, place: Place) -> list[str]:
    """Return a kernel's facts for the inspector line, in the configuration of a level, the one that
    ran, or the first built.
    """
    kernel = kernel_of(reader, place.document)
    if kernel is None:
        return []
    profiled = describe_profiled_time(reader, kernel.id)
    if kernel.language != "triton" or card(reader) is None:
        return profiled
    build = _shown_build(reader, kernel, place)
    if build:
        facts = _in_short(reader, kernel.id, build.id)
    else:
        facts = _in_short(reader, kernel.id, 0)
    return profiled + facts


def describe_profiled_time(reader: SessionReader, kernel: int) -> list[str]:
    """Describe the time of a kernel in the profile; empty without a profile, or if the kernel did
    not run in it.
    """
    profiled = profiled_kernel(reader, kernel)
    if profiled is None:
        return []
    if profiled.shared_s:
        sign = "~ "
    elif profiled.is_similar:
        sign = "≈ "
    else:
        sign = ""
    return [
        f"{sign}{microseconds(profiled.seconds)} in the profile, {counted(profiled.runs, 'run')}"
    ]


@answered_once
def _in_short(reader: SessionReader, kernel: int, build: int) -> list[str]:
    """Return the facts in short, for which all of the PTX is looked through."""
    gpu = card(reader)
    row = reader.get(KernelBuild, build) if build else None
    if gpu:
        return in_short(reader, reader.get(model.Kernel, kernel), gpu, row)
    return []


def kernel_entries(reader: SessionReader, place: Place) -> list[Entry]:
    """Return a kernel's facts in full, and where a line of a level leads."""
    kernel = kernel_of(reader, place.document)
    gpu = card(reader)
    if kernel is None or kernel.language != "triton":
        return []
    build = _shown_build(reader, kernel, place)
    is_here = build_of_level(reader, place.document) is not None
    if build and is_here:
        made_from = _origin_entries(reader, build, place)
    else:
        made_from = []
    if is_here:
        instructions = instruction_entries(reader, place)
    elif build:
        instructions = _machine_entries(reader, build, place)
    else:
        instructions = []
    if gpu:
        facts = kernel_facts(reader, kernel, gpu, build)
    else:
        facts = _why_none(reader)
    options = f" with {build.shown_options}" if build and build.options else ""
    entries = [*instructions, *made_from, Entry("kernel", f"{kernel.name}{options}")]
    entries += [Entry("profile", words) for words in describe_profiled_time(reader, kernel.id)]
    for fact in [*facts, *_alone(reader, kernel)]:
        entries.append(Entry(fact.label, fact.text, note=fact.note))
    return entries


def _machine_entries(reader: SessionReader, build: KernelBuild, place: Place) -> list[Entry]:
    """Return the resources that the machine code of a line of the Triton source uses; empty for any
    other line.
    """
    document = level_document(reader, build, "sass")
    if document is None or source_here(reader, build) != place.document:
        return []
    made = lines_in_level(reader, build, document, frozenset([place.line]))
    cost = line_cost(text_of(reader, document), (line + 1 for line in made))
    return [Entry("SASS", cost.words, note=COUNTED_ONCE)] if cost and cost.words else []


def _alone(reader: SessionReader, kernel: model.Kernel) -> list[KernelFact]:
    """Return the measured times of a kernel that ran alone."""
    speed = kernel_speed(reader, kernel)
    if speed is None:
        return []
    return [
        KernelFact("alone", line)
        for line in describe_speed(speed, measured_card(reader, speed.time.device))
    ]


def _why_none(reader: SessionReader) -> list[KernelFact]:
    text = not_described(reader)
    return [KernelFact("GPU", text)] if text else []


def _origin_entries(reader: SessionReader, build: KernelBuild, place: Place) -> list[Entry]:
    document = source_here(reader, build)
    if document is None:
        return []
    text = lines_of(reader, document)
    lines = sorted(triton_lines(reader, build, place))
    return [
        Entry("from", f"line {line + 1}: {text[line].strip()}", Place(document, line), FOUND)
        for line in lines
    ]


def _shown_build(reader: SessionReader, kernel: model.Kernel, place: Place) -> KernelBuild | None:
    shown = build_of_document(reader, place.document)
    if shown:
        return shown
    built = [build for build in builds_here(reader, kernel) if build.has_resources]
    picked = [build for build in built if build.is_picked]
    return next(iter(picked or built), None)


def _level(place: Place) -> str:
    return next(
        (title for level, title in LEVEL_TITLES.items() if level == place.document.language), ""
    )


# What the instruction under the cursor does, and what its control word asks for, in words.

COUNTED = "counted from the registers that each instruction reads and writes"

READ_FROM = (
    "read from bits 105 to 125 of the instruction (maxas, CuAssembler; NVIDIA does not document "
    "them)"
)


def describe_instruction(reader: SessionReader, place: Place) -> list[str]:
    """Describe in short what an instruction does and waits for; empty for a line without one."""
    level, name = _instruction(reader, place)
    if not name or level not in EXPLAINED_LEVELS:
        return []
    opcode = explained(level, name)
    if opcode:
        sentence = f"{name}: {opcode.sentence.removesuffix('.')}"
    else:
        sentence = f"{name}: {NOT_EXPLAINED}"
    word = _control(reader, place)
    if word is None:
        return [sentence]
    return [sentence, ", ".join(describe_control(word))]


def instruction_entries(reader: SessionReader, place: Place) -> list[Entry]:
    """Return the facts about a single instruction, one entry each."""
    level, name = _instruction(reader, place)
    if not name or level not in EXPLAINED_LEVELS:
        return []
    opcode = explained(level, name)
    sentence = opcode.sentence if opcode else f"{NOT_EXPLAINED.capitalize()}."
    entries = [Entry("opcode", name)]
    entries.append(Entry("", sentence))
    if opcode:
        entries += [Entry("", f".{modifier}: {words}") for modifier, words in opcode.modifiers]
    word = _control(reader, place)
    if word:
        entries.append(Entry("control", f"{word.address} {control_text(word)}", note=READ_FROM))
        entries += [Entry("", part) for part in describe_control(word)]
    if level == "sass":
        live = live_registers(text_of(reader, place.document)).get(place.line + 1)
        if live is not None:
            entries.append(Entry("live", f"{live} registers of a thread", note=COUNTED))
    return entries


def _control(reader: SessionReader, place: Place) -> Control | None:
    if place.document.language == "sass":
        text = text_of(reader, place.document)
    else:
        text = ""
    if not text or not is_known(text):
        return None
    lines = _lines(text)
    if place.line + 1 < len(lines):
        return control_of(lines[place.line], lines[place.line + 1])
    return None


def _instruction(reader: SessionReader, place: Place) -> tuple[Level, str]:
    """Return the level and the name of the instruction at a place; no name where there is none."""
    level = next(
        (level for level in LEVELS if level == place.document.language and is_assembly(level)), None
    )
    if level is None:
        return "ttir", ""
    lines = _lines(text_of(reader, place.document))
    if place.line >= len(lines):
        return level, ""
    return level, name_in(level, lines[place.line])


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    """Return the lines of a text. The texts looked at last are remembered: this is asked at every
    move.
    """
    return text.split("\n")
