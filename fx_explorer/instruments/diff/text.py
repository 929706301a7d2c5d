"""Two sessions compared, as text: what ``fx-explorer diff`` prints, and the view of a job's ranks
shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from fx_explorer.analysis.compared_figure import DIFFERS
from fx_explorer.analysis.diff import CUT_IN_WORDS
from fx_explorer.analysis.words import counted
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.instruments.caches.report import difference_sentences
from fx_explorer.instruments.diff.kernel_pairs import (
    ARROW,
    IN_WORDS,
    KernelPair,
    kernel_pairs,
    pair_counts,
)
from fx_explorer.instruments.diff.kernel_resources import (
    configuration_pairs,
    estimated,
    resources_in_words,
)
from fx_explorer.instruments.diff.published_pairs import StagePair, stage_pairs
from fx_explorer.instruments.diff.two_sessions import COMPILE_TIME, breaks_of_one, figures_of_both
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

LEAST_NAME_CELLS = MIN_COLUMN = 16
MIN_FIGURE = 24


def text_of_both(
    left: SessionReader, right: SessionReader, names: tuple[str, str], width: int | None = None
) -> Iterator[str]:
    """Yield what differs, line by line. Tables and names have at most ``width`` columns, None where
    a program reads; sentences may be longer.
    """
    yield from _figures(left, right, names, width)
    yield from _breaks(left, right, names)
    yield from _published(stage_pairs(left, right))
    yield from _caches(list(difference_sentences(left, right, names)))
    yield ""
    pairs = kernel_pairs(left, right)
    yield from _kernels(pairs, width)
    yield from _resources(left, right, pairs, names, width)


def _figures(
    left: SessionReader, right: SessionReader, names: tuple[str, str], room: int | None
) -> Iterator[str]:
    figures = figures_of_both(left, right)
    if room:
        most = max(MIN_COLUMN, (room - MIN_FIGURE) // 3)
        names = cut_in_middle(names[0], most), cut_in_middle(names[1], most)
    column = max(MIN_COLUMN, *(cell_len(name) + 2 for name in names))
    # A long name of a figure takes from the column beside it, whose numbers stand to the right.
    width = max(
        MIN_FIGURE, *(len(figure.what) + 2 + len(figure.left) - column for figure in figures)
    )
    yield f"{'':<{width}}{names[0]:>{column}}{names[1]:>{column}}"
    for figure in figures:
        mark = " " if figure.what == COMPILE_TIME else "≠"
        words = "" if figure.change == DIFFERS else figure.change
        change = f"  {mark} {words}".rstrip() if figure.differs else ""
        left_part = figure.what + f"{figure.left:>{width + column - len(figure.what)}}"
        row = f"{left_part}{figure.right:>{column}}"
        has_room = room is None or len(row) + len(change) <= room
        yield from [row + change] if has_room else [row, f"{change.strip():>{room}}"]


def _breaks(left: SessionReader, right: SessionReader, names: tuple[str, str]) -> Iterator[str]:
    for name, reader, other in ((names[0], left, right), (names[1], right, left)):
        for graph_break in breaks_of_one(reader, other):
            yield f"only {name} breaks at {in_file(graph_break.file, graph_break.line)}: {graph_break.in_words}"


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


def _kernels(pairs: list[KernelPair], width: int | None) -> Iterator[str]:
    counts = ", ".join(
        f"{count:,} {IN_WORDS[kind]}" for kind, count in pair_counts(pairs).items() if count
    )
    yield f"kernels, by what they compute: {counts or 'none'}"
    for pair in pairs:
        if pair.difference not in ("same", "device"):
            is_code = pair.difference == "code" and pair.changed_lines
            if is_code:
                said = f"{counted(pair.changed_lines, 'changed line')}"
            else:
                said = IN_WORDS[pair.difference]
            if pair.is_library_call and pair.difference == "code":
                said = "another library call"
            if pair.is_cut:
                said += f"; {CUT_IN_WORDS}"
            head = f"  [{pair.compilation}] {pair.direction:<9} "
            yield f"{head}{_name(pair, width and width - len(head) - len(said) - 2)}: {said}"


def _name(pair: KernelPair, room: int | None) -> str:
    """Return the name of the kernel, or the names on either side, cut in the middle where there is
    no room.
    """
    if room is None or cell_len(pair.name) <= room:
        return pair.name
    names = pair.name.split(ARROW)
    each = (room - len(ARROW) * (len(names) - 1)) // len(names)
    return ARROW.join(cut_in_middle(name, max(LEAST_NAME_CELLS, each)) for name in names)


def _resources(
    left: SessionReader,
    right: SessionReader,
    pairs: list[KernelPair],
    names: tuple[str, str],
    width: int | None,
) -> Iterator[str]:
    """Yield what the data sheets let expect, kernel by kernel, and what was built for either."""
    rows = [
        (
            pair,
            [
                estimated(r, u.kernel if u else None)
                for r, u in ((left, pair.left), (right, pair.right))
            ],
        )
        for pair in pairs
    ]
    if not any(any(said) for _, said in rows):
        return
    yield ""
    yield f"a call of each on either GPU, an estimate by its data sheet ({names[0]} · {names[1]}):"
    for pair, said in rows:
        if any(said):
            head = f"  [{pair.compilation}] {pair.direction:<9} "
            yield head + _name(pair, width and width - len(head))
            yield "      " + "  ·  ".join(words or "not known" for words in said)
        for configuration_pair in configuration_pairs(left, right, pair):
            yield (
                f"      {configuration_pair.name}: {resources_in_words(configuration_pair.left)}  ·  "
                f"{resources_in_words(configuration_pair.right)}"
            )
