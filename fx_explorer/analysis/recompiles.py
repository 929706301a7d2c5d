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
    """The line that needed the guard, or the function when torch does not tell."""


Function = tuple[str, str, int]
"""Name, file, line."""

_NOWHERE: Function = ("", "", 0)


def recompiles(reader: SessionReader) -> list[ExplainedRecompile]:
    """One entry for each guard that failed, in the order of the file: a recompile may have several."""
    names = compilation_names(reader)
    functions = {row[0]: (row[1], row[2], row[3]) for row in reader.query("SELECT id, function, file, line FROM compilation")}
    return [_explained(reader, row, names, functions) for row in reader.rows(model.Recompile)]


def _explained(
    reader: SessionReader, row: model.Recompile, names: dict[int, str], functions: dict[int, Function]
) -> ExplainedRecompile:
    return ExplainedRecompile(
        compilation=names.get(row.compilation, ""),
        of=row.of,
        function=functions.get(row.compilation, _NOWHERE)[0],
        reason=row.reason,
        in_words=in_words(row.guard or row.reason),
        guard=row.guard,
        file=row.file,
        line=row.line,
        place=place_of_path(reader, row.file, row.line) or place_of_path(reader, *functions.get(row.compilation, _NOWHERE)[1:]),
    )


_VALUE = r"(?:[LG]\['(?P<name>\w+)'\]|(?P<plain>[A-Za-z_]\w*))(?P<rest>[\w.\[\]']*)"
"""What a guard looks at: ``L['x']``, ``G['scale']``, ``x``, ``self.power``."""

_CHANGE = r"expected (?P<old>[^\s,]+), actual (?P<new>[^\s;,]+?)\.?(?:$|[\s;,])"

_PLAIN: tuple[tuple[str, str], ...] = (
    (
        rf"tensor '{_VALUE}' size mismatch at index (?P<index>\d+)\. {_CHANGE}",
        "size {index} of {value} was {old} and now is {new}",
    ),
    (
        rf"tensor '{_VALUE}' stride mismatch at index (?P<index>\d+)\. {_CHANGE}",
        "the memory layout of {value} changed (stride {index} was {old} and now is {new})",
    ),
    (rf"tensor '{_VALUE}' dtype mismatch\. {_CHANGE}", "the dtype of {value} was {old} and now is {new}"),
    (rf"tensor '{_VALUE}' rank mismatch\. {_CHANGE}", "{value} had {old} dimensions and now has {new}"),
    (rf"tensor '{_VALUE}' requires_grad mismatch", "whether {value} requires a gradient changed"),
    (r"GLOBAL_STATE changed: (?P<what>[\w ]+)", "a global setting changed: {what}"),
    (rf"^{_VALUE} == (?P<old>[^\s#]+)", "{value} is no longer {old}, which the compiled code was made for"),
    (rf"^not {_VALUE}$", "{value} is no longer false, which the compiled code was made for"),
)
"""torch's sentences (``torch/csrc/dynamo/guards.cpp``, TensorCheck::check_verbose, and code parts) → plain ones."""

_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
"""C++ names of dtypes (``c10/core/ScalarType.h``) → Python's."""


def in_words(reason: str) -> str:
    """``size 0 of x was 4 and now is 8``; the reason itself when it is of a kind not known here."""
    for pattern, plain in _PLAIN:
        found = re.search(pattern, reason)
        if found:
            named = {key: _DTYPES.get(text or "", text or "") for key, text in found.groupdict().items()}
            value = "".join(named.get(part, "") for part in ("name", "plain", "rest"))
            return plain.format(value=value, **{k: named.get(k, "") for k in ("index", "old", "new", "what")})
    return reason.strip()
