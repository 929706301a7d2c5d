"""Two sessions compared, as text: what ``fx-explorer diff`` prints, and the view of a job's ranks shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fx_explorer.analysis.caches.sentences import difference_sentences
from fx_explorer.analysis.comparing.figure import DIFFERS
from fx_explorer.analysis.comparing.kernel_pairs import IN_WORDS, KernelPair, kernel_pairs, pair_counts
from fx_explorer.analysis.comparing.kernel_resources import configuration_pairs, estimated, resources_in_words
from fx_explorer.analysis.comparing.published_pairs import StagePair, stage_pairs
from fx_explorer.analysis.comparing.two_sessions import COMPILE_TIME, breaks_of_one, figures_of_both
from fx_explorer.analysis.diff import CUT_IN_WORDS
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader


def text_of_both(left: SessionReader, right: SessionReader, names: tuple[str, str]) -> Iterator[str]:
    figures = figures_of_both(left, right)
    width = max(24, *(len(figure.what) + 2 for figure in figures))
    column = max(16, *(len(name) + 2 for name in names))
    yield f"{'':<{width}}{names[0]:>{column}}{names[1]:>{column}}"
    for figure in figures:
        mark = " " if figure.what == COMPILE_TIME else "≠"
        words = "" if figure.change == DIFFERS else figure.change
        change = f"  {mark} {words}".rstrip() if figure.differs else ""
        yield f"{figure.what:<{width}}{figure.left:>{column}}{figure.right:>{column}}{change}"
    for name, one, other in ((names[0], left, right), (names[1], right, left)):
        for found in breaks_of_one(one, other):
            yield f"only {name} breaks at {Path(found.file).name}:{found.line}: {found.in_words}"
    yield from _published(stage_pairs(left, right))
    yield from _caches(list(difference_sentences(left, right, names)))
    yield ""
    pairs = kernel_pairs(left, right)
    yield from _kernels(pairs)
    yield from _resources(left, right, pairs, names)


def _caches(sentences: list[str]) -> Iterator[str]:
    """Yield why torch's caches answered one side and not the other."""
    if sentences:
        yield ""
        yield "torch's compile caches:"
        yield from (f"  {sentence}" for sentence in sentences)


def _published(pairs: list[StagePair]) -> Iterator[str]:
    """Yield what differs in the stages that backends of the user's own published."""
    if not pairs:
        return
    yield ""
    yield "stages published by the backend, by their names:"
    for pair in pairs:
        yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}: {pair.difference}"


def _kernels(pairs: list[KernelPair]) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {IN_WORDS[kind]}" for kind, count in pair_counts(pairs).items() if count)
    yield f"kernels, by what they compute: {counts or 'none'}"
    for pair in pairs:
        if pair.difference not in ("same", "device"):
            is_code = pair.difference == "code" and pair.changed_lines
            said = f"{counted(pair.changed_lines, 'changed line')}" if is_code else IN_WORDS[pair.difference]
            if pair.is_library_call and pair.difference == "code":
                said = "another library call"
            if pair.is_cut:
                said += f"; {CUT_IN_WORDS}"
            yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}: {said}"


def _resources(left: SessionReader, right: SessionReader, pairs: list[KernelPair], names: tuple[str, str]) -> Iterator[str]:
    """Yield what the data sheets let expect, kernel by kernel, and what was built for either."""
    rows = [
        (pair, [estimated(r, u.kernel if u else None) for r, u in ((left, pair.left), (right, pair.right))]) for pair in pairs
    ]
    if not any(any(said) for _, said in rows):
        return
    yield ""
    yield f"a call of each on either GPU, an estimate by its data sheet ({names[0]} · {names[1]}):"
    for pair, said in rows:
        if any(said):
            yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}"
            yield "      " + "  ·  ".join(words or "not known" for words in said)
        for one in configuration_pairs(left, right, pair):
            yield f"      {one.name}: {resources_in_words(one.left)}  ·  {resources_in_words(one.right)}"
