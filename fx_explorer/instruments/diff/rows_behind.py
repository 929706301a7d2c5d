"""This module makes the list or text of both captures behind one of their differences, line by
line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fx_explorer.analysis.diff import DiffRow, Sign, text_diff
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import first_line, seconds, size, tensor
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.diff.differences import Aspect, Differences, Row
from fx_explorer.instruments.diff.graph_pairs import lines_of_pair, pair_row
from fx_explorer.instruments.diff.kernel_pairs import Difference, KernelPair, code_diff
from fx_explorer.instruments.diff.two_sessions import cause_alone, paired_breaks
from fx_explorer.instruments.kernels.counts import KernelUse
from fx_explorer.instruments.memory.saved_values import kept_bytes, saved_values, user_names
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

Lists = Callable[[SessionReader], list[str]]


def rows_behind(
    before: SessionReader, after: SessionReader, all_of_it: Differences, row: Row
) -> list[DiffRow[str]]:
    """Return, line by line, the list or text of both captures behind a figure."""
    if row.aspect == "summary":
        return [_row_of_summary(other) for other in all_of_it.rows if _is_listed(other)]
    if row.source:
        return text_diff(row.source.before.splitlines(), row.source.after.splitlines())
    if row.graph:
        return lines_of_pair(before, after, row.graph)
    if row.pair:
        return code_diff(before, after, row.pair) or [_kernel_row(row.pair)]
    if row.figure.what.startswith(" "):
        return _sides(row)  # a part of the figure above it
    if row.aspect == "breaks":
        return _first_what_differs([_break_row(*pair) for pair in paired_breaks(before, after)])
    if row.aspect == "kernels":
        return _first_what_differs([_kernel_row(pair) for pair in all_of_it.pairs])
    if row.aspect == "graphs":
        # The figure counts Dynamo's; those of later stages have rows of their own.
        of_dynamo = [pair_row(pair) for pair in all_of_it.graphs if pair.is_of_dynamo]
        return _first_what_differs(of_dynamo)
    if row.aspect == "time":
        return _times(before, after)
    lists = _LISTS.get(row.aspect)
    if not lists:
        return _sides(row)
    if row.aspect == "recompiles":
        return _by_text(lists(before), lists(after), cause_alone)
    return _by_text(lists(before), lists(after), str)


def _sides(row: Row) -> list[DiffRow[str]]:
    sign: Sign = "~" if row.figure.differs else " "
    return [DiffRow(sign, row.figure.left, row.figure.right)]


def _is_listed(row: Row) -> bool:
    return row.figure.differs and row.aspect != "summary"


def _row_of_summary(row: Row) -> DiffRow[str]:
    """Return a row that differs, with what it is about on both sides."""
    what = row.figure.what.strip().removeprefix("→ ")
    right = f"{what}: {row.figure.right}"
    if row.figure.change:
        right += f" · {row.figure.change}"
    return DiffRow("~", f"{what}: {row.figure.left}", right)


def _first_what_differs(rows: list[DiffRow[str]]) -> list[DiffRow[str]]:
    return sorted(rows, key=lambda row: row.sign == " ")


def _break_row(before: DistinctBreak | None, after: DistinctBreak | None) -> DiffRow[str]:
    """Return a break with the line number that it has on either side."""
    sign: Sign = " "
    if after is None:
        sign = "-"
    elif before is None:
        sign = "+"
    return DiffRow(sign, _break_cell(before), _break_cell(after))


def _break_cell(graph_break: DistinctBreak | None) -> str | None:
    if graph_break is None:
        return None
    if graph_break.file:
        where = f"{in_file(graph_break.file, graph_break.line)}  {graph_break.code}  "
    else:
        where = ""
    return f"{where}{first_line(graph_break.description)}"


_SIGNS: dict[Difference, Sign] = {
    "same": " ", "device": " ", "sizes": "~", "code": "~", "only left": "-", "only right": "+",
}  # fmt: skip


def _kernel_row(pair: KernelPair) -> DiffRow[str]:
    return DiffRow(_SIGNS[pair.difference], _name(pair.left), _name(pair.right))


def _name(use: KernelUse | None) -> str | None:
    return use.kernel.name if use else None


def _times(before: SessionReader, after: SessionReader) -> list[DiffRow[str]]:
    old, new = stage_times(before).by_stage, stage_times(after).by_stage
    rows = []
    for stage, words in STAGE_IN_WORDS.items():
        if stage not in old and stage not in new:
            continue
        left = f"{words}: {seconds(old.get(stage, 0.0))}"
        right = f"{words}: {seconds(new.get(stage, 0.0))}"
        sign: Sign = " " if left == right else "~"
        rows.append(DiffRow(sign, left, right))
    return rows


# lists of which the order does not matter


def _recompiles(reader: SessionReader) -> list[str]:
    return [
        f"{plain_function(recompile.function)}: {first_line(recompile.description)}"
        for recompile in causes(reader)
    ]


def _saved(reader: SessionReader) -> list[str]:
    values = saved_values(reader)
    names = user_names(reader, values)
    texts = []
    for value in values:
        saved = value.saved
        name = names.get(saved.id) or value.producer or saved.name
        kept = size(kept_bytes(saved) or 0)
        texts.append(f"{name}  {tensor(saved.dtype, saved.shape)}  {kept}")
    return texts


_LISTS: dict[Aspect, Lists] = {"recompiles": _recompiles, "memory": _saved}


def _by_text(
    before: Iterable[str], after: Iterable[str], key: Callable[[str], str]
) -> list[DiffRow[str]]:
    """Return the texts that only one side has, then those of both, however often and wherever they
    occur. Texts with the same ``key`` are the same.
    """
    old, new = _by_key(before, key), _by_key(after, key)
    only_old: list[DiffRow[str]] = []
    only_new: list[DiffRow[str]] = []
    shared: list[DiffRow[str]] = []
    for same, texts in old.items():
        new_texts = new.get(same, [])
        shared += [DiffRow(" ", *pair) for pair in zip(texts, new_texts, strict=False)]
        only_old += [DiffRow("-", text, None) for text in texts[len(new_texts) :]]
    for same, new_texts in new.items():
        texts = old.get(same, [])
        only_new += [DiffRow("+", None, text) for text in new_texts[len(texts) :]]
    return [*only_old, *only_new, *shared]


def _by_key(texts: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = {}
    for text in texts:
        by_key.setdefault(key(text), []).append(text)
    return by_key
