"""What there is to say of a session that was captured for a GPU that was not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader

SHOWN_AT_MOST = 5

FED = {
    "transplant": "The program ran on the CPU, and its graphs were moved to the GPU.",
    "fake": "What was on the GPU had shapes and no content",
}
"""By how the program was fed."""

NOT_KNOWN = (
    "What only the device decides is not known: which candidate autotuning picks, whether a matmul is padded, how long "
    "anything takes. Matrix products, convolutions and attention are calls of libraries unless they are autotuned."
)


def virtual_gpu(reader: SessionReader) -> str:
    """Its title; empty for a session of a real device."""
    return str((reader.meta("environment") or {}).get("virtual_gpu") or "")


def virtual_gpu_facts(reader: SessionReader) -> Iterator[Fact]:
    title, told = virtual_gpu(reader), reader.meta("virtual_gpu") or {}
    if not title:
        return
    fed = FED.get(told.get("feeding", ""), "")
    reason = f": {told['reason']}." if told.get("reason") else ""
    yield Fact(
        "run", "good", f"The code is that for a virtual {title}: nothing was run on it.", f"{fed}{reason}", view="kernels"
    )
    if told.get("warning"):
        yield Fact("run", "notice", f"{told['warning'][0].upper()}{told['warning'][1:]}.", view="kernels")
    if choices := reader.meta("virtual_gpu_choices"):
        yield _untimed(choices)
    yield from _questions(reader, told.get("questions", []))


def _untimed(choices: list[dict[str, Any]]) -> Fact:
    candidates = sum(len(choice["candidates"]) for choice in choices)
    text = f"Autotuning would time {counted(candidates, 'candidate')} on the GPU, for {counted(len(choices), 'operation')}; "
    return Fact("kernels", "notice", f"{text}the first Triton one of each is shown.", NOT_KNOWN, view="kernels")


def _questions(reader: SessionReader, questions: list[dict[str, Any]]) -> Iterator[Fact]:
    """Code that the program would not have gone through on the GPU, or not this way."""
    for one in questions[:SHOWN_AT_MOST]:
        asked = f"{PurePath(one['file']).name}:{one['line']} asks {one['what']}"
        text = f"{asked}: on the GPU it may take another branch than the one that was captured."
        detail = "The program ran on the CPU, where the answer is no. With --no-weights, or .cuda() in the program, it is yes."
        yield Fact("run", "notice", text, detail, place_of_path(reader, one["file"], one["line"]), "source")
    if len(questions) > SHOWN_AT_MOST:
        more = counted(len(questions) - SHOWN_AT_MOST, "more such question")
        yield Fact("run", "notice", f"The program has {more} about the device.", view="source")
