"""This module has the rows about guards: what torch checks before it runs compiled code again, the
answers for other inputs, and the decisions about dynamic sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fx_explorer.model.repeated_text import RepeatedName, RepeatedText

Origin = Literal["argument", "module", "closure", "global", "library", "state", "shapes"]
"""Origin of the checked value.

``argument``: a parameter of the function. ``module``: the ``self`` of a model, or what hangs off
it. ``closure``: a variable of an enclosing function. ``global``: a global of the user's module.
``library``: torch's own modules and Python's builtins. ``state``: a setting of torch (grad mode,
autocast …). ``shapes``: a relation between dynamic sizes.
"""

NOT_MEASURED = -1.0


@dataclass(frozen=True, slots=True)
class GuardCheck:
    """One leaf of torch's guard tree: a check that runs at every call. A Guard may need several, or
    have none of its own.
    """

    id: int
    compilation: int
    guard: int
    """The Guard it is for; 0 when torch installs it for itself."""
    position: int
    """Position in the tree, depth first: torch's initial order of checking (a check that fails is
    moved to the front).
    """
    kind: str
    """torch's class of leaf: ``TENSOR_MATCH``, ``EQUALS_MATCH``, ``LENGTH_CHECK`` …"""
    source: str
    """The checked source: ``L['x']``, ``G['F'].gelu``; empty for state and shapes."""
    origin: Origin
    code: RepeatedText
    value_type: str = ""
    """Type of the example input: ``torch.Tensor``, ``int``."""
    value: str = ""
    """The example input, if its text is short: ``4``, ``f32[4, 8]``; otherwise empty."""
    note: RepeatedName = ""
    """torch's own remark: the code that the check is for, and a hint."""
    file: RepeatedName = ""
    line: int = 0
    """The user's line that asked for it."""
    stack: int = 0
    cost_ns: float = NOT_MEASURED
    """Nanoseconds of one check: see capture/dynamo/guard_rows.py. If a leaf has several parts, the
    first row carries the cost of all, the others 0.
    """


GUARD_FILTER = "guard_filter_fn"
"""The entry of torch.compile's options that names a filter of guards."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The answer of one of torch's own guard filters about the guards of a compilation, which was
    made without a filter. Nothing was dropped.
    """

    id: int
    compilation: str
    """Name of the compilation, ``0/0``."""
    filter: str
    """Name in ``torch.compiler``: ``skip_guard_on_globals_unsafe``."""
    guards: int
    """Number of guards that it was asked about."""
    dropped: tuple[int, ...]
    """The ``position`` of each Guard that it would drop."""


Answer = Literal["accepted", "rejected", "not_asked"]


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """The answer of one compilation's guards about other inputs. All answers to one question have
    the same ``question`` number.
    """

    id: int
    question: int
    inputs: str
    """The inputs as the user typed them: an expression."""
    compilation: int
    answer: Answer
    reason: str = ""
    """For ``rejected``: the first check that fails, in torch's words. For ``not_asked``: why its
    guards could not be asked.
    """
    check: int = 0
    """The GuardCheck that fails; 0 when it is not known which."""
    file: str = ""
    line: int = 0


SymbolEventKind = Literal["constrained", "specialized", "same_as", "assumed"]


@dataclass(frozen=True, slots=True)
class SymbolEvent:
    """A decision about a dynamic size during compilation. There is one row for each of torch's
    reports.

    ``constrained``: code depended on a property of it, which became a guard (or, for an unbacked
    one, a check at run time). ``specialized``: it became a constant, or another size. ``same_as``:
    an input had the same size, and is assumed to have it always. ``assumed``: its real value was
    used, as ``fake_tensor_propagate_real_tensors`` allows.
    """

    id: int
    compilation: int
    kind: SymbolEventKind
    symbols: tuple[str, ...]
    expression: str
    """``s77 > 2``; for ``specialized`` the value, for ``same_as`` the source of the input."""
    reason: str = ""
    """torch's own word for it: ``range_refined_to_singleton``."""
    file: str = ""
    line: int = 0
    stack: int = 0
    """Id of the user's stack at the decision; 0 for none."""
    attempt: int = 0
    """Number of Dynamo's attempt, when it restarted: only the last one counts."""
