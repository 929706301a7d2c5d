"""This module makes the facts for sessions that say less than a run would, because they were
captured for a virtual GPU or made from an AOTInductor package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.documents import Place, artifact_document, place_of_path
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model import Node, SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

SHOWN_AT_MOST = 5

BY_MODE = {
    "transplant": "The program ran on the CPU, and its graphs were moved to the GPU.",
    "fake": "Tensors on the GPU had shapes but no content",
}
"""Emulation mode → how the program ran."""

AS_ON_THE_GPU = (
    "c w captures again with everything on the GPU and without content, like --no-weights: the "
    "answer is then yes."
)

_MADE_ON_THE_CPU = "lift_fresh_copy"
_COPIES = ("prims.device_put.default", "aten._to_copy.default")

NOT_KNOWN = (
    "Facts that only a real device decides are not known: which candidate autotuning chooses, "
    "whether a matmul is padded, and all run times. Matrix products, convolutions and attention "
    "are calls of libraries unless they are autotuned."
)


def virtual_gpu(reader: SessionReader) -> str:
    """Return the title of the virtual GPU; empty for a session of a real device."""
    return str((reader.meta("environment") or {}).get("virtual_gpu") or "")


def virtual_gpu_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how the capture differs from a run on the GPU; nothing where it was not for a virtual
    one.
    """
    title, record = virtual_gpu(reader), reader.meta("virtual_gpu") or {}
    if not title:
        return
    mode = BY_MODE.get(record.get("feeding", ""), "")
    reason = f": {record['reason']}." if record.get("reason") else ""
    yield Fact(
        "run",
        "good",
        f"The code is for a virtual {title}: nothing ran on it.",
        f"{mode}{reason}",
        view="kernels",
    )
    warning = record.get("warning")
    if warning:
        yield Fact("run", "notice", f"{warning[0].upper()}{warning[1:]}.", view="kernels")
    choices = reader.meta("virtual_gpu_choices")
    if choices:
        yield _untimed(choices)
    yield from _placeholders(reader, record.get("placeholders", []))
    yield from _unsaved(reader, record.get("unsaved", []))
    yield from _questions(reader, record.get("questions", []))
    yield from _constants(reader)


def first_question(facts: list[Fact]) -> Fact | None:
    """Return the first fact about the virtual GPU that the user can answer, so that the code
    becomes that of a real one; None without any.
    """
    for fact in facts:
        if fact.detail.endswith(AS_ON_THE_GPU):
            return fact
    return None


def _constants(reader: SessionReader) -> Iterator[Fact]:
    """Yield the facts on ``torch.tensor`` of Python numbers in a graph: torch makes the tensor on a
    GPU if there is one, else on the CPU, and copies it.
    """
    lines: dict[tuple[int, int], None] = {}
    for target in _COPIES:
        for node in reader.rows(Node, target=target):
            if node.arguments.startswith(_MADE_ON_THE_CPU):
                lines[node.file, node.line] = None
    if not lines:
        return
    file, line = next(iter(lines))
    path = reader.get(SourceFile, file).path if file else ""
    where = f"{in_file(path, line)} makes" if path else "The program makes"
    if len(lines) > 1:
        others = f" So do {counted(len(lines) - 1, 'other line')}."
    else:
        others = ""
    text = (
        f"{where} a tensor of Python numbers, which is copied to the GPU here; with a real GPU it "
        "is created there."
    )
    detail = (
        "Kernel names contain _to_copy instead of lift_fresh, as on a GPU; the kernels compute "
        f"the same.{others}"
    )
    place = place_of_path(reader, path, line) if path else None
    yield Fact("kernels", "notice", text, detail, place, "kernels")


def _untimed(choices: list[dict[str, Any]]) -> Fact:
    candidates = sum(len(choice["candidates"]) for choice in choices)
    text = (
        f"Autotuning would time {counted(candidates, 'candidate')} on the GPU, for "
        f"{counted(len(choices), 'operation')}; "
    )
    return Fact(
        "kernels",
        "notice",
        f"{text}the first Triton candidate of each is shown.",
        NOT_KNOWN,
        view="kernels",
    )


def _placeholders(reader: SessionReader, placeholders: list[dict[str, Any]]) -> Iterator[Fact]:
    """Yield the fact that the program was given placeholder numbers for the content of tensors."""
    if not placeholders:
        return
    first = placeholders[0]
    lines = {(placeholder["file"], placeholder["line"]) for placeholder in placeholders}
    where = in_file(first["file"], first["line"])
    if len(lines) > 1:
        others = f" and {counted(len(lines) - 1, 'other line')}"
    else:
        others = ""
    reads = "read numbers" if others else "reads a number"
    yield Fact(
        "run",
        "notice",
        f"{where}{others} {reads} from tensors without content: they are placeholders "
        f"({first['value']}).",
        "Anything that the program printed, saved or decided from them is not a real result. The "
        "compiled code follows the branches that these numbers select.",
        place_of_path(reader, first["file"], first["line"]),
        "source",
    )


def _unsaved(reader: SessionReader, unsaved: list[dict[str, Any]]) -> Iterator[Fact]:
    """Yield the fact that ``torch.save`` wrote nothing."""
    if not unsaved:
        return
    first = unsaved[0]
    if unsaved[1:]:
        others = f", and so do {counted(len(unsaved) - 1, 'other line')}"
    else:
        others = ""
    text = (
        f"{in_file(first['file'], first['line'])} saves tensors without content{others}: "
        "nothing was written."
    )
    place = place_of_path(reader, first["file"], first["line"])
    yield Fact("run", "notice", text, "Files of earlier runs are unchanged.", place, "source")


def _questions(reader: SessionReader, questions: list[dict[str, Any]]) -> Iterator[Fact]:
    """Yield the facts on questions of the program's code that may lead to another branch on the
    GPU.
    """
    for question in questions[:SHOWN_AT_MOST]:
        file, line = question["file"], question["line"]
        text = (
            f"{in_file(file, line)} checks {question['what']}: on the GPU it may take another "
            "branch than the captured one."
        )
        detail = f"The program ran on the CPU, where the answer is no. {AS_ON_THE_GPU}"
        yield Fact("run", "notice", text, detail, place_of_path(reader, file, line), "source")
    if len(questions) > SHOWN_AT_MOST:
        more = counted(len(questions) - SHOWN_AT_MOST, "more such question")
        yield Fact("run", "notice", f"The program has {more} about the device.", view="source")


UNTOUCHED = (
    "Nothing of the package was loaded or run: these are the texts in it. Its binaries are listed."
)


def is_package(reader: SessionReader) -> bool:
    """Return whether the session was made from an AOTInductor package, without a run."""
    return (reader.meta("target") or {}).get("kind") == "package"


_TABLE = "What each kernel computes"
"""Title of the table that torch writes of kernels and the operations behind them."""


def _computed(texts: list[model.Artifact]) -> str:
    """Return where the session says what each kernel computes, or why it does not."""
    if any(row.title == _TABLE for row in texts):
        return (
            f"The document {_TABLE} has the operations and lines of your program behind each "
            "of them."
        )
    return (
        "With torch._inductor.config.trace.provenance_tracking_level = 1, torch records the "
        "operations that each kernel computes."
    )


def package_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield facts on the content of an AOTInductor package, and the code to look at first."""
    models = reader.rows(model.Compilation)
    named = listed([compilation.name for compilation in models])
    target = (reader.meta("target") or {}).get("name", "")
    text = (
        f"{target} is an AOTInductor package with {counted(len(models), 'compiled model')}: "
        f"{named or 'none'}."
    )
    yield Fact("run", "good", text, UNTOUCHED, view="source")
    for compilation in models:
        artifacts = reader.rows(model.Artifact, compilation=compilation.id)
        texts = [row for row in artifacts if row.stage != "kernel"]
        if not texts:
            continue
        document = artifact_document(texts[0], compilation.name)
        lines = sum(row.line_count for row in texts[:-1])
        text = f"{compilation.name}: {counted(len(texts) - 1, 'text')}, {counted(lines, 'line')}."
        titles = listed([row.title for row in texts[:-1]], 6)
        yield Fact("kernels", "good", text, titles, Place(document))
        kernels = reader.rows(model.Kernel, compilation=compilation.id)
        if kernels:
            library = sum(row.language == "extern" for row in kernels)
            generated = counted(len(kernels) - library, "generated kernel")
            text = f"It calls {generated} and {counted(library, 'library function')}."
            yield Fact("kernels", "good", text, _computed(texts), view="kernels")
        text = f"See {document.title}, the code that calls the kernels."
        yield Fact("next", "good", text, "", Place(document))
