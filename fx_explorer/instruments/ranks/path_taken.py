"""This module finds where two ranks took different paths through the user's code: the first
operation that only one of them has, its line, and the check that explains it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.diff import graph_diff
from fx_explorer.analysis.naming import plain_code
from fx_explorer.instruments.ranks.summary import short_target
from fx_explorer.model.bounded_matching import BoundedMatcher
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts import bounded

_NOTED_LINE = re.compile(
    r"^(?P<code>.*?)\s*# (?P<file>[^#\n]+?):(?P<line>\d+) in (?P<function>\S+)"
)

_WORD = re.compile(r"[A-Za-z_]\w*")

_DECIDES = re.compile(r"(?:if|elif|while|assert|for)\b")


@dataclass(frozen=True, slots=True)
class OtherPath:
    """The first operation in which two graphs differ."""

    words: str
    """The difference as words that follow "its graph": ``has softmax, which rank 0's lacks``."""
    file: str
    line: int
    code: str
    """The line, where it is known."""
    decided_by: str
    """The check at that line that only the other ranks passed: ``r == 0``; empty where no check
    explains it.
    """
    decided_at: int
    """Line of the condition that decided it."""

    @property
    def is_branch(self) -> bool:
        return bool(self.decided_by) or _DECIDES.match(self.code) is not None

    @property
    def at(self) -> str:
        return in_file(self.file, self.line) if self.file else ""


def other_path(
    reader: SessionReader, compilation: int, reference: SessionReader, other: int, those: str
) -> OtherPath | None:
    """Return where the graph of ``compilation`` diverges from that of ``other``, in another
    session; None when the operations are the same, or one of them has no graph.
    """
    theirs, ours = nodes_of(reference, other), nodes_of(reader, compilation)
    if not theirs or not ours:
        return None
    difference = _first_difference(theirs, ours)
    if difference is None:
        return None
    return _path(difference, reader, compilation, reference, other, those)


def path_of_another_part(
    reader: SessionReader, compilation: int, reference: SessionReader, other: int, those: str
) -> OtherPath | None:
    """Return the first difference that is not explained by the graphs being different parts of a
    model; None where all are.

    Operations that only one of the graphs has come in runs. A run is there by design where one of
    it computes with an input that the other graph lacks (its own modules, the batch, the targets),
    or where the module decided it (``if self.is_last``).
    """
    theirs, ours = nodes_of(reference, other), nodes_of(reader, compilation)
    own = _missing_inputs(ours, theirs), _missing_inputs(theirs, ours)
    for lacking, extra in _runs(theirs, ours):
        if _is_by_design(extra, own[0]) or _is_by_design(lacking, own[1]):
            continue
        node = next(filter(None, (*extra, *lacking)), None)
        if node is None:
            continue
        difference = (None, node) if extra else (node, None)
        path = _path(difference, reader, compilation, reference, other, those)
        if not path.decided_by.startswith("self."):
            return path
    return None


def _runs(
    before: Sequence[model.Node], after: Sequence[model.Node]
) -> Iterator[tuple[list[model.Node], list[model.Node]]]:
    """Yield the runs of operations in which two graphs differ, as (operations of the first, of the
    second).
    """
    old, new = _computing(before), _computing(after)
    matcher = BoundedMatcher(
        [node.target for node in old], [node.target for node in new], autojunk=False
    )
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield old[start:end], new[new_start:new_end]


def _computing(nodes: Sequence[model.Node]) -> list[model.Node]:
    return [node for node in nodes if _is_call(node) and not node.is_view]


def _missing_inputs(nodes: Sequence[model.Node], others: Sequence[model.Node]) -> set[str]:
    """Return the names of the inputs that the other graph lacks."""
    known = {node.target for node in others if node.op == "placeholder"}
    return {node.name for node in nodes if node.op == "placeholder" and node.target not in known}


def _is_by_design(run: Sequence[model.Node], own_inputs: set[str]) -> bool:
    return any(own_inputs & set(_WORD.findall(node.arguments)) for node in run)


def _path(
    difference: tuple[model.Node | None, model.Node | None],
    reader: SessionReader,
    compilation: int,
    reference: SessionReader,
    other: int,
    those: str,
) -> OtherPath:
    before, after = difference
    node = after or before
    assert node is not None
    if after and before:
        words = f"computes {_call(after)} where {those} computed {_call(before)}"
    elif after:
        words = f"has {_call(after)}, which the graph of {those} lacks"
    else:
        words = f"lacks {_call(node)}, which the graph of {those} has"
    frame = _frame(reader, node) if after else _frame(reference, node)
    decided = _deciding_check(reference, other, reader, compilation, frame)
    return OtherPath(words, frame.file, frame.line, frame.code.strip(), *decided)


def nodes_of(reader: SessionReader, compilation: int) -> list[model.Node]:
    """Return the nodes of the graph that represents a compilation; empty without one."""
    for stage in ("dynamo", "pre_grad", "joint", "forward", "backward"):
        graphs = reader.rows(model.Graph, compilation=compilation, stage=stage, parent=0, limit=1)
        if graphs:
            return reader.nodes(graphs[0])
    return []


def _first_difference(
    before: Sequence[model.Node], after: Sequence[model.Node]
) -> tuple[model.Node | None, model.Node | None] | None:
    """Return the first operation that only one of the graphs has. If both have the same operations,
    return the first with other arguments.

    Operations behind an inserted one are applied to other values, too.
    """
    rows = [row for row in graph_diff(_operations(before), _operations(after)) if row.sign != " "]
    calls = [(row.before, row.after) for row in rows if _is_call(row.before) or _is_call(row.after)]
    old = Counter(node.target for node in before if _is_call(node))
    new = Counter(node.target for node in after if _is_call(node))
    lacking, extra = old - new, new - old
    for one, two in calls:
        lacking_call = one if one is not None and one.target in lacking else None
        extra_call = two if two is not None and two.target in extra else None
        if lacking_call or extra_call:
            return lacking_call, extra_call
    return calls[0] if calls else None


def _is_call(node: model.Node | None) -> bool:
    return node is not None and node.op.startswith("call_")


def _operations(nodes: Sequence[model.Node]) -> list[model.Node]:
    return [replace(node, shape=None, dtype="") for node in nodes]


def _call(node: model.Node) -> str:
    return short_target(node.target) or node.name


def _frame(reader: SessionReader, node: model.Node) -> model.Frame:
    """Return the user's line of an operation; an empty frame where it is not known."""
    if node.stack:
        frames = reader.get(model.Stack, node.stack).frames
    else:
        frames = ()
    return frames[-1] if frames else model.Frame("", 0, "")


def _deciding_check(
    reference: SessionReader,
    other: int,
    reader: SessionReader,
    compilation: int,
    frame: model.Frame,
) -> tuple[str, int]:
    """Return the reference's check at the last condition before a line of a function, and the
    condition's line, unless the other rank makes the same check.

    A rank that failed has no checks: then only a condition on the very line says anything.
    """
    ours = {str(check.code) for check in reader.rows(model.GuardCheck, compilation=compilation)}
    compilation_of_reference = reference.get(model.Compilation, other)
    deciding = []
    for check, line in _conditions(reference, other, frame):
        code = str(check.code)
        if code not in ours and (ours or line == frame.line):
            deciding.append((line, plain_code(code, compilation_of_reference)))
    line, code = max(deciding, default=(0, ""))
    return code, line


def _conditions(
    reader: SessionReader, compilation: int, frame: model.Frame
) -> Iterator[tuple[model.GuardCheck, int]]:
    """Yield the checks of values that a condition of a function asked for, up to a line, and
    where.
    """
    name = PurePath(frame.file).name
    for check in reader.rows(model.GuardCheck, compilation=compilation, kind="EQUALS_MATCH"):
        noted = _NOTED_LINE.match(bounded(check.note))
        if not noted or not _DECIDES.match(noted["code"]) or int(noted["line"]) > frame.line:
            continue
        if PurePath(noted["file"]).name == name and noted["function"] == frame.function:
            yield check, int(noted["line"])
