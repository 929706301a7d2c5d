"""Recompiles: which compilation had to be made again, and what was different."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.breaks import compilation_names
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class ExplainedRecompile:
    compilation: str
    of: str
    function: str
    reason: str
    """torch's own words."""
    in_words: str
    """The same for somebody who knows no guard; torch's words when there is no plainer way to put it."""
    guard: str
    file: str
    line: int
    place: Place | None


def recompiles(reader: SessionReader) -> list[ExplainedRecompile]:
    """One entry for each guard that failed, in the order of the file: a recompile may have several."""
    names = compilation_names(reader)
    functions = dict(reader.query("SELECT id, function FROM compilation"))
    return [_explained(reader, row, names, functions) for row in reader.rows(model.Recompile)]


def _explained(
    reader: SessionReader, row: model.Recompile, names: dict[int, str], functions: dict[int, str]
) -> ExplainedRecompile:
    return ExplainedRecompile(
        compilation=names.get(row.compilation, ""),
        of=row.of,
        function=functions.get(row.compilation, ""),
        reason=row.reason,
        in_words=in_words(row.guard or row.reason),
        guard=row.guard,
        file=row.file,
        line=row.line,
        place=place_of_path(reader, row.file, row.line),
    )


_SOURCE = r"L\['(?P<name>\w+)'\](?P<rest>[\w.\[\]']*)"

_PLAIN: tuple[tuple[str, str], ...] = (
    (
        rf"tensor '{_SOURCE}' size mismatch at index (?P<index>\d+)\. expected (?P<old>\S+), actual (?P<new>[^\s.;,]+)",
        "size {index} of {value} was {old} and now is {new}",
    ),
    (
        rf"tensor '{_SOURCE}' stride mismatch at index (?P<index>\d+)\. expected (?P<old>\S+), actual (?P<new>[^\s.;,]+)",
        "the memory layout of {value} changed (stride {index} was {old} and now is {new})",
    ),
    (
        rf"tensor '{_SOURCE}' dtype mismatch\. expected (?P<old>\w+), actual (?P<new>\w+)",
        "the dtype of {value} was {old} and now is {new}",
    ),
    (
        rf"tensor '{_SOURCE}' rank mismatch\. expected (?P<old>\d+), actual (?P<new>\d+)",
        "{value} had {old} dimensions and now has {new}",
    ),
    (rf"tensor '{_SOURCE}' requires_grad mismatch\. expected requires_grad=(?P<old>\d)", "requires_grad of {value} changed"),
    (rf"{_SOURCE} == (?P<old>[^\s#]+)", "{value} was {old} before; its value is part of the compiled code"),
    (r"GLOBAL_STATE changed: (?P<what>[\w ]+)", "a global setting changed: {what}"),
)
"""torch's sentences (``torch/csrc/dynamo/guards.cpp``, TensorCheck::check_verbose, and code parts) → plain ones."""


def in_words(reason: str) -> str:
    """``size 0 of x was 4 and now is 8``; the reason itself when it is of a kind not known here."""
    for pattern, plain in _PLAIN:
        found = re.search(pattern, reason)
        if found:
            named = found.groupdict()
            value = f"{named.get('name', '')}{named.get('rest', '')}"
            return plain.format(value=value, **{k: v for k, v in named.items() if k not in ("name", "rest")})
    return reason.strip()
