"""This module reads the tree of checks that torch runs at every call of compiled code, as torch
prints it.

``GuardManagerWrapper.__str__`` (torch/_dynamo/guards.py): a line for each value that is reached,
and below it one for each check on it, with torch's remark behind ``#``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fx_explorer.model import Origin
from fx_explorer.torch_texts import bounded


@dataclass(frozen=True, slots=True)
class PrintedCheck:
    """One check of the tree."""

    kind: str
    """torch's class of check: ``TENSOR_MATCH``."""
    source: str
    """The checked source: ``L['x']``; empty for state and sizes."""
    value_type: str
    code: str
    note: str
    """torch's remark: the user's code, and ``FILE:LINE in FUNCTION`` with the end of the path."""

    is_of_sizes: bool = False
    """Whether it relates sizes: such checks are outside of the tree, and run last."""


_LINE = re.compile(r"(?P<depth>(?:\| )*)\+- (?P<kind>\w+)(?:: (?P<rest>.*))?$")

_SOURCE = re.compile(r"source=(?P<source>.+?), accessed_by=")

_TYPE = re.compile(r", type=<class '(?P<type>[^']+)'>, tag_safe=")

_CHECK_TYPE = re.compile(r", type=<.*$")
"""Matches torch's addition for readers to a check of a type or of an object."""

_PLACE = re.compile(r"(?:^|[\s(])(?P<file>[^\s#()]+\.py):(?P<line>\d{1,9}) in \S")
"""Matches ``FILE:LINE in FUNCTION`` in a remark (torch/_dynamo/guards.py,
``get_verbose_code_part``). One on sizes may have several (symbolic_shapes.py).
"""

_NO_REMARK = re.compile(r"^\(unknown (?:var|source) [^\n]{1,400}, please file a bug\)$")
"""Matches what torch prints where it has no remark on a size (symbolic_shapes.py)."""

_LATENCY = re.compile(r"^Guard latency = (?P<microseconds>[\d.]+) us", re.M)

_ROOT = re.compile(r"\b(?P<scope>[LG])\['(?P<name>[^']+)'\]")

_MEMBER = re.compile(r"^L\['[^']+'\](?:\.__dict__)?(?:\._|\['_)(?:modules|parameters|buffers)\b")
"""Matches a source within a module: no other object has these attributes."""

_LIBRARY = re.compile(r"^__(?:import_|builtins)")


_OF_SEVERAL_LINES = ("DIMENSION_DYNAMIC_MARKING_GUARD",)
"""Checks of several conditions, each of which torch prints on its own line."""


def read_checks(text: str) -> Iterator[PrintedCheck]:
    """Yield the checks of a printed tree, in its order; a check over several lines is one."""
    waiting: PrintedCheck | None = None
    for check in _lines(text):
        if (
            waiting
            and check.kind in _OF_SEVERAL_LINES
            and (check.kind, check.source) == (waiting.kind, waiting.source)
        ):
            waiting = replace(waiting, code=f"{waiting.code} and {check.code}")
            continue
        if waiting:
            yield waiting
        waiting = check
    if waiting:
        yield waiting


def _lines(text: str) -> Iterator[PrintedCheck]:
    reached: list[tuple[int, str, str]] = []
    for line in text.split("\n"):
        match = _LINE.match(line)
        if not match:
            continue
        depth, kind, rest = len(match["depth"]) // 2, match["kind"], match["rest"] or ""
        while reached and reached[-1][0] >= depth:
            reached.pop()
        about = bounded(rest)
        source, value_type = _SOURCE.search(about), _TYPE.search(about)
        if "Manager" in kind:
            reached_source = source["source"] if source else ""
            reached_type = value_type["type"] if value_type else ""
            reached.append((depth, reached_source, reached_type))
            continue
        if not rest:  # a check on several values stands at the first, and is named at the others
            continue
        _, looked_at, of_type = reached[-1] if reached else (0, "", "")
        if looked_at in ("", "L", "G"):
            looked_at = of_type = ""
        code, _, note = rest.partition("  # ")
        if kind.endswith("_MATCH") and kind != "TENSOR_MATCH":
            code = _CHECK_TYPE.sub("", code)
        yield PrintedCheck(
            kind,
            looked_at,
            of_type,
            code.strip(),
            _NO_REMARK.sub("", note.strip()),
            is_of_sizes=kind == "SYMBOLIC_SHAPE_GUARD" or depth == 0,
        )


def noted_lines(note: str) -> list[tuple[str, int]]:
    """Return file and line of each place that torch's remark on a check names. The beginning of a
    path may be cut off.
    """
    return [(match["file"], int(match["line"])) for match in _PLACE.finditer(bounded(note))]


def latency_us(text: str) -> float | None:
    """Return torch's measured time of one pass through the tree, in microseconds; None if it is not
    there.
    """
    match = _LATENCY.search(text)
    if not match:
        return None
    return float(match["microseconds"])


def origin_of(check: PrintedCheck) -> Origin:
    """Return where the checked value comes from, as far as its text shows: the model that a method
    belongs to is mostly called ``self``, and only a module has modules and parameters.
    """
    if check.is_of_sizes:
        return "shapes"
    root = _ROOT.search(check.source or check.code)
    if root is None:
        return "state"
    if root["scope"] == "G":
        if _LIBRARY.match(root["name"]):
            return "library"
        return "global"
    is_module = root["name"] == "self" or _MEMBER.search(check.source or check.code)
    return "module" if is_module else "argument"
