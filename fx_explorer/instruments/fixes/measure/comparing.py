"""This module compares what two programs did in the same calls, and describes their differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.instruments.fixes.measure import near
from fx_explorer.instruments.fixes.measure.float64_judge import Float64Judge, ValueOfCall
from fx_explorer.instruments.fixes.measure.near import Distance
from fx_explorer.instruments.fixes.measure.observing import WHILE_COMPILING
from fx_explorer.instruments.fixes.measure.outside import READS
from fx_explorer.instruments.fixes.measure.process_state import OF_PROCESS
from fx_explorer.instruments.fixes.measure.reachable import UNCHANGED, identity_differences
from fx_explorer.instruments.fixes.measure.varying import (
    RELATIVE,
    RELATIVE_IF_BUILT,
    Varying,
    VaryingLines,
    holder,
    is_within,
    that_differ,
)
from fx_explorer.model import Verification
from fx_explorer.program.equal_results import Precision, is_within_tolerance, root_mean_square

MAX_DIFFERENCES = 12

IN_BUILT_CODE, WITHOUT_COMPILING = " in the built code", ", without torch.compile"


@dataclass
class Comparison:
    """The result of comparing a changed program with the original, call by call.

    ``is_built`` means that the changed program ran as built code, which computes in another order
    than PyTorch's own operators and raises errors of its own. ``is_uncompiled`` means that it ran
    without torch.compile. ``ignored`` names the globals that the change itself adds. ``varying`` is
    what differs from run to run of the original.
    """

    is_built: bool = False
    is_uncompiled: bool = False
    ignored: frozenset[str] = frozenset()
    known: frozenset[str] | None = None
    """Globals of the original, or None if unknown. Any other global was added by the change or by
    Dynamo.
    """
    varying: Varying = field(default_factory=Varying)
    at_first: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """The content of parameters and buffers before each call, by name (``reachable.UNCHANGED``)."""
    rounding: float = near.ROUNDING
    """Relative rounding error of the coarsest numbers that the program computes with."""
    judge: Float64Judge | None = None
    """The original's results in float64, where they are at hand."""
    rounded: set[ValueOfCall] = field(default_factory=set)
    """Values that differ by what may be rounding, for which no result in float64 was at hand."""
    near_by_direction: set[ValueOfCall] = field(default_factory=set)
    """Those of ``rounded`` that are farther apart than the tolerance of their dtype."""
    compared: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    different: set[str] = field(default_factory=set)
    """The names of the values that differ."""
    unlike: set[str] = field(default_factory=set)
    """Names of the values in ``different`` that differ in type, dtype or shape, and not only in
    content.
    """
    holders: set[str] = field(default_factory=set)
    """Names of the containers and objects that hold a value in one of the programs only."""
    unlike_ends: set[str] = field(default_factory=set)
    """Names of the calls that end differently in the two programs."""
    largest: float = 0.0
    where: str = ""
    lost: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    moved: str = ""
    other_messages: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    is_run_built: bool = False
    """Whether the changed program was also compared with its code built."""
    apart: dict[str, Distance] = field(default_factory=dict)
    """The distance between two numbers, by the value and the call (``place_of``), also when they
    count as equal.
    """
    by_compiling: set[str] = field(default_factory=set)
    """Values and calls whose results compiling changes in the original too. Each is named only
    once.
    """
    _places: dict[str, str] = field(default_factory=dict)
    _inputs: str = ""
    """The inputs of the call that is being compared now, in words."""
    _call: str = ""
    """The same, as a phrase."""

    def add(self, original: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Compare two calls with the same inputs (``Observation.plain()``)."""
        self._inputs = original["call"]
        self._call = f"with {self._inputs}"
        call = f"{self._call}{self._how}"
        self._add_lines(original["printed"], changed["printed"])
        self._add_errors(original, changed)
        self._add_effects(original["effects"], changed["effects"], call)
        if not self._ended_alike(original, changed, call):
            return
        self._add_values(original["values"], changed["values"])
        before, after = _all_facts(original), _all_facts(changed)
        both = before.keys() & after.keys()
        compared = {name for name in both if not self._is_ignored(name)}
        for name, text in identity_differences(original, changed, compared):
            self.different.add(name)
            self.differences.append(f"{text}, {call}")
        self._add_facts(before, after)
        for name in before.keys() ^ after.keys():
            if inside := holder(name, both):
                self.holders.add(inside)
        for name, what in {**changed["unreadable"], **original["unreadable"]}.items():
            if not self._is_ignored(name):
                self._leave_out(f"{what} of {name}")

    @property
    def _how(self) -> str:
        """A phrase for how the changed program ran."""
        if self.is_built:
            return IN_BUILT_CODE
        if self.is_uncompiled:
            return WITHOUT_COMPILING
        return ""

    def place_of(self, text: str) -> str:
        """Return the value and the call of a difference: "the output, with zeros" for "the output,
        with zeros in the built code: differs by up to 3".
        """
        return self._places.get(text) or text.partition(IN_BUILT_CODE)[0]

    @property
    def is_all_equal(self) -> bool:
        """Return whether nothing differs: no value, no message of an exception, and no printed line
        or its position.
        """
        messages = self.lost or self.new or self.moved or self.other_messages
        return not self.differences and not messages

    @property
    def prints_equal(self) -> bool:
        """Return whether both programs printed and logged the same lines, in any order."""
        return not (self.lost or self.new)

    def add_run_without_compiling(self, other: Comparison) -> None:
        """Add the differences that ``other`` has: the comparison of the same calls made without
        torch.compile.

        Lines that ``other`` printed differently become differences here, because ``lost`` and
        ``new`` hold the lines of the compiled program.
        """
        self.differences += other.differences
        if self.prints_equal:
            self.differences += [
                f"it no longer prints {_short(line)}{WITHOUT_COMPILING}" for line in other.lost[:1]
            ]
            self.differences += [
                f"it prints {_short(line)} in addition{WITHOUT_COMPILING}" for line in other.new[:1]
            ]
        self.leave_out_too(other)
        self.other_messages += [
            text for text in other.other_messages if text not in self.other_messages
        ]

    def leave_out_too(self, other: Comparison) -> None:
        """Add what another comparison of the same calls could not compare."""
        for what in other.not_compared:
            self._leave_out(what)

    def _leave_out(self, what: str) -> None:
        if what not in self.not_compared:
            self.not_compared.append(what)

    def _ended_alike(
        self, original: Mapping[str, Any], changed: Mapping[str, Any], call: str
    ) -> bool:
        """Return whether both calls ended alike, so that their values can be compared too."""
        if self._call in self.varying.calls:
            return False
        if not (original["raised"] or changed["raised"]):
            return True
        self.compared["exception"] += 1
        both = original["raised"] and changed["raised"]
        # Built code, and operators met while compiling, raise errors of their own: neither their
        # type nor their message says anything about the change.
        if both and (self.is_built or _fails_as_an_operator(original, changed)):
            if not self.is_built and _is_refused_by_graph(changed):
                text = (
                    f"{original['raised']} said {_message_of(original)} and {changed['raised']} "
                    f"says {_message_of(changed)}"
                )
                self.other_messages.append(text)
            return False
        if original["raised"] != changed["raised"]:
            self.unlike_ends.add(self._call)
            self.differences.append(f"{call} {_ended(original)} before and {_ended(changed)} after")
            return False
        one, other = (
            self.varying.messages.masked([seen["message"]]) for seen in (original, changed)
        )
        if original["message"] and changed["message"] and one != other:
            text = (
                f"{changed['raised']} said {_message_of(original)} and says {_message_of(changed)}"
            )
            self.other_messages.append(text)
        return True

    def _add_values(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        found, others = _by_name(before), _by_name(after)
        sizes = _largest_of_kinds(found) if self.judge else {}
        for name, (kind, value) in found.items():
            if self._is_ignored(name):
                if self.varying.keeps_form(name):
                    self._add_form(name, value, others)
                continue
            if name not in others or _form(value) != _form(others[name][1]):
                self.unlike.add(name)
            self.compared[kind] += value is not None
            text = self._describe_place(name, kind)
            if name not in others:
                self._differs(name, f"{text} is missing")
                continue
            one, other = self._content(name, value), self._content(name, others[name][1])
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                difference = self._describe_tensors(
                    one, other, name, self._place(text), sizes.get(kind, 0.0)
                )
            else:
                difference = self._describe_values(one, other, name, self._place(text))
            if difference:
                self._differs(name, text, difference)
        for name, (kind, _) in others.items():
            if name not in found and not self._is_ignored(name) and not self._may_be_new(name):
                self.unlike.add(name)
                self._differs(name, f"{self._describe_place(name, kind)} is new")

    def _add_form(self, name: str, value: Any, others: Mapping[str, tuple[str, Any]]) -> None:
        """Compare only the presence, type, dtype and shape of a value whose content varies from run
        to run.
        """
        if name not in others:
            self._differs(name, f"{name} is missing")
        elif _form(value) != _form(others[name][1]):
            self._differs(name, name, f"was {_short(value)} and is {_short(others[name][1])}")

    def _differs(self, name: str, what: str, detail: str = "") -> None:
        """Add a difference of the value called ``name``: ``what`` is its text for the message, and
        ``detail`` how it differs.
        """
        place = self._place(what)
        text = f"{place}{self._how}"
        if detail:
            text += f": {detail}"
        self.different.add(name)
        self.differences.append(text)
        self._places[text] = place

    def _place(self, what: str) -> str:
        return f"{what}, {self._call}"

    def _describe_place(self, name: str, kind: str) -> str:
        if kind == "input":
            return f"{name} after the call"
        return name

    def _content(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and value == UNCHANGED:
            return self.at_first.get(name, value)
        return value

    def _add_facts(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        for name, facts in before.items():
            others = after.get(name)
            if self._is_ignored(name):
                continue
            if others is None:
                self._differs(name, f"{name} ({facts['type']}) is missing")
                continue
            if facts["type"] != others["type"]:
                aspects = {"type"}
            else:
                aspects = facts.keys() | others.keys()
            for what in aspects:
                one, other = facts.get(what), others.get(what)
                if one != other:
                    self._differs(name, name, f"its {what} was {one} and is {other}")
        for name, facts in after.items():
            if name not in before and not self._is_ignored(name) and not self._may_be_new(name):
                self._differs(name, f"{name} ({facts['type']}) is new")

    def _is_ignored(self, name: str) -> bool:
        if self.varying.leaves_out(name):
            return True
        return name.removeprefix("the gradient of ") in self.ignored or is_within(
            name, self.ignored
        )

    def _may_be_new(self, name: str) -> bool:
        if name in _SET_BY_INDUCTOR or name.startswith(OF_PROCESS):
            return True
        match = _GLOBAL.match(name.removeprefix("the gradient of "))
        return (
            self.known is not None
            and match is not None
            and not self.known & {match[0], match["of_main"]}
        )

    def _add_effects(self, before: Sequence[str], after: Sequence[str], call: str) -> None:
        """Compare what the two calls did outside the process.

        An effect that both have in the same order is listed as not compared, since what it writes
        is not read. A file that is read less often is listed too, because its content may have
        changed by the time it would have been read.
        """
        before, after = map(self.varying.effects.masked, (before, after))
        for effect in (Counter(filter(_only_reads, before)) - Counter(after)).elements():
            self._leave_out(
                f"later values of {effect.removeprefix(READS)}, which is no longer read in each "
                "call"
            )
        before = [effect for effect in before if not _only_reads(effect)]
        after = [effect for effect in after if not _only_reads(effect)]
        if before != after:
            gone, new = (
                next(iter((one - other).elements()), "") for one, other in _both_ways(before, after)
            )
            if gone:
                text = f"it no longer {gone}"
            elif new:
                text = f"it {new} in addition"
            else:
                text = "its outside effects are in another order"
            self.differences.append(f"{text}, {call}")
        for effect in dict.fromkeys(before):
            self._leave_out(f"the program after it {effect}")

    def _add_errors(self, original: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Count the lines on stderr that are gone. New lines are ignored, because torch writes to
        stderr while it compiles.
        """
        self.compared["line on stderr"] += len(original["errors"])
        before, after = (self.varying.errors.masked(seen["errors"]) for seen in (original, changed))
        self.lost += (Counter(before) - Counter(after)).elements()

    def _add_lines(self, before: Sequence[str], after: Sequence[str]) -> None:
        before, after = map(self.varying.printed.masked, (before, after))
        self.compared["printed line"] += len(before)
        one, other = Counter(before), Counter(after)
        if self.is_uncompiled:
            relative = 0.0
        elif self.is_built:
            relative = RELATIVE_IF_BUILT
        else:
            relative = RELATIVE
        lost, new = that_differ(one, other, relative)
        self.lost += lost
        self.new += new
        if not self.moved and one == other:
            pairs = zip(after, before, strict=True)
            self.moved = next((line for line, line_before in pairs if line != line_before), "")

    def _describe_values(self, before: Any, after: Any, name: str, place: str) -> str:
        """Describe the difference between two values; empty without one. ``place`` names the value
        and the call.
        """
        is_equal = near.are_equal(before, after)
        if not is_equal and not self.is_uncompiled and type(before) is type(after) is float:
            self.apart[place] = near.distance_of_numbers(before, after)
            exact = self._exact(name, torch.tensor(before))
            is_equal = near.are_numbers_near(
                before, after, Precision(self.rounding), exact, is_built=self.is_built
            )
            if not is_equal and self.is_built and exact is None:
                self.rounded.add((self._inputs, name))
        if is_equal:
            return ""
        return f"was {_short(before)} and is {_short(after)}"

    def _describe_tensors(
        self, before: torch.Tensor, after: torch.Tensor, name: str, place: str, group_size: float
    ) -> str:
        """Describe the difference between two tensors; empty without one. ``group_size`` is the
        size of the largest result of the same kind.
        """
        for what, one, other in (
            ("shape", _shape(before), _shape(after)),
            ("dtype", before.dtype, after.dtype),
        ):
            if one != other:
                return f"its {what} was {one} and is {other}"
        apart = near.distance_of_tensors(before, after)
        if apart.largest and near.may_be_rounded(before.dtype):
            self.apart[place] = apart
        if apart.largest > self.largest:
            self.largest, self.where = apart.largest, f"{place}{self._how}"
        precision = Precision(self.rounding, group_size=group_size)
        exact = self._exact(name, before)
        is_near = near.are_tensors_near(before, after, precision, exact, is_built=self.is_built)
        if apart.largest and exact is None:
            self._note_rounded(name, before, after, is_near)
        if not is_near:
            return f"differs by up to {apart.largest:.3g}"
        if self.is_built or near.have_same_zero_signs(before, after):
            return ""
        return "a zero has another sign"

    def _exact(self, name: str, eager: torch.Tensor) -> torch.Tensor | None:
        if self.judge is None or self.is_uncompiled or not near.may_be_rounded(eager.dtype):
            return None
        return self.judge.exact((self._inputs, name), eager)

    def _note_rounded(
        self, name: str, before: torch.Tensor, after: torch.Tensor, is_near: bool
    ) -> None:
        """Note a value that a run in float64 could judge: any that is not bit by bit equal in a
        program of 16 bits, else one that is too far away in built code.
        """
        is_narrow = self.rounding > near.ROUNDING
        if not near.may_be_rounded(before.dtype) or not (is_narrow or self.is_built):
            return
        if is_narrow or not is_near:
            self.rounded.add((self._inputs, name))
        if is_narrow and not (self.is_built and is_within_tolerance(after, before)):
            self.near_by_direction.add((self._inputs, name))

    def varies(self, run: Mapping[str, Any], other: Mapping[str, Any]) -> Varying:
        """Return the differences between two runs of the original that this object has compared, in
        one call or as a whole.
        """
        printed, effects = (
            VaryingLines.of(run[kind], other[kind]) for kind in ("printed", "effects")
        )
        return Varying(
            frozenset(self.different),
            frozenset(self.unlike),
            frozenset(self.holders),
            frozenset(self.unlike_ends),
            printed,
            VaryingLines.of(run["errors"], other["errors"], of_progress=True),
            effects,
            VaryingLines.of([run["message"]], [other["message"]]),
        )

    def row(self, calls: Sequence[str]) -> Verification:
        """Return the row for the session that sums up the comparison, with the first differences of
        each kind.
        """
        moved_line = self.moved if self.prints_equal else ""
        return Verification(
            0,
            is_equal=not self.differences,
            prints_equal=self.prints_equal,
            calls=tuple(calls),
            compared=dict(self.compared),
            largest_difference=self.largest,
            where=self.where,
            differences=tuple(self.differences[:MAX_DIFFERENCES]),
            lost_lines=tuple(self.lost[:MAX_DIFFERENCES]),
            new_lines=tuple(self.new[:MAX_DIFFERENCES]),
            moved_line=moved_line,
            not_compared=tuple(self.not_compared),
            not_tried=tuple(self.not_tried),
            other_messages=tuple(self.other_messages[:MAX_DIFFERENCES]),
            is_built=self.is_built or self.is_run_built,
        )


def _fails_as_an_operator(original: Mapping[str, Any], changed: Mapping[str, Any]) -> bool:
    """Return whether an operator failed in both programs, with different messages.

    Dynamo finds this while compiling, whatever was changed. The operator's fake-tensor version may
    raise another type than the operator itself; there is then no message (``observing.raised``).
    """
    if original["raised"] not in _OF_OPERATORS:
        return False
    in_its_stand_in = (
        changed["raised"] in _OF_OPERATORS and not changed["message"] and bool(original["message"])
    )
    return (
        in_its_stand_in
        or _is_refused_by_graph(changed)
        or changed["raised"].endswith(WHILE_COMPILING)
    )


def _is_refused_by_graph(changed: Mapping[str, Any]) -> bool:
    return changed["raised"] == "RuntimeError" and changed["message"].startswith(_CHECK_OF_A_GRAPH)


_OF_OPERATORS = ("RuntimeError", "IndexError")
"""The exceptions that PyTorch's own operators raise when they cannot be computed."""

_CHECK_OF_A_GRAPH = "Runtime assertion failed for expression "
"""Start of the message with which a compiled graph refuses a size before an operator does
(``insert_deferred_runtime_asserts`` in torch/fx/passes).
"""


def _all_facts(seen: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the facts of all values, by name. A plain value has one fact, its type."""
    return {
        **{
            name: {"type": type(value).__name__}
            for name, (_, value) in _by_name(seen["values"]).items()
        },
        **seen["facts"],
    }


def describe_hidden(before: Mapping[str, Any]) -> list[str]:
    """Describe the original's effects that a comparison cannot see, and the lines that no call
    reached.
    """
    calls = [what for what in before["hidden"] if what.endswith("()")]
    others = [what for what in before["hidden"] if not what.endswith("()")]
    varying = [f"{call}, which differs from run to run" for call in calls]
    return [*varying, *others, *before["not reached"]]


_GLOBAL = re.compile(r"(?P<of_main>global \w+)(\.\w+)?")
"""Matches ``global NAME`` or ``global MODULE.NAME``. An attribute of a global may look like the
second.
"""


_SET_BY_INDUCTOR = frozenset(
    f"os.environ[{name!r}]"
    for name in ("TORCHINDUCTOR_CACHE_DIR", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR")
)
"""Variables that Inductor sets in its own process when it builds code. If the original has one too,
the program set it.
"""


def _only_reads(effect: str) -> bool:
    return effect.startswith(READS)


def _both_ways(
    before: Sequence[str], after: Sequence[str]
) -> tuple[tuple[Counter[str], Counter[str]], ...]:
    one, other = Counter(before), Counter(after)
    return (one, other), (other, one)


def _by_name(values: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Return name → (kind, value). The kind is not part of the key: an output may be a number in
    one program and a tensor in the other.
    """
    by_name: dict[str, tuple[str, Any]] = {}
    for kind, of_kind in values.items():
        by_name.update({name: (kind, value) for name, value in of_kind.items()})
    return by_name


def _ended(seen: Mapping[str, Any]) -> str:
    if seen["raised"]:
        return f"it raised {seen['raised']}"
    return "it returned"


def _form(value: object) -> tuple[object, ...]:
    """Return the parts of a varying value that are the same in each run: its type, dtype
    and shape.
    """
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.shape)
    return (type(value),)


def _message_of(seen: Mapping[str, Any]) -> str:
    return _cut(repr(seen["message"]), _MESSAGE)


def _short(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {_shape(value)}"
    text = "nothing" if value is None else repr(value)
    return _cut(text, _SHORT)


_SHORT, _MESSAGE = 40, 80
"""How many characters of a value, and of an exception's message, are shown."""


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"


def _largest_of_kinds(values: Mapping[str, tuple[str, Any]]) -> dict[str, float]:
    """Return, for each kind, the size of the largest tensor (``root_mean_square``)."""
    sizes: dict[str, float] = {}
    for kind, value in values.values():
        if isinstance(value, torch.Tensor):
            sizes[kind] = max(sizes.get(kind, 0.0), root_mean_square(value))
    return sizes


def _shape(tensor: torch.Tensor) -> str:
    return str(list(tensor.shape))
