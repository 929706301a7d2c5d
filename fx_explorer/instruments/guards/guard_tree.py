"""The checks that torch runs before it uses compiled code again: grouped by the value they look at,
in words, and whether they can fail at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.naming import is_unfinished, plain_code, plain_source, resumed_at
from fx_explorer.analysis.words import listed
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import guard_kinds_of
from fx_explorer.torch_texts import bounded

Chance = Literal["inputs", "program", "hardly"]
"""What can make a check fail. ``inputs``: the arguments of the next call. ``program``: only values
that the program sets between two calls. ``hardly``: only replacing something that programs rarely
replace (a function, a class, a module of torch).
"""

CHANCE_WORDS: dict[Chance, str] = {
    "inputs": "can fail with other inputs",
    "program": "fails only if the program changes something",
    "hardly": "cannot fail unless something is replaced",
}


@dataclass(frozen=True, slots=True)
class ExplainedCheck:
    check: model.GuardCheck
    of: model.Compilation | None
    """The compilation that makes the check."""
    guard_kind: str
    """torch's type of the guard for which the check is made; empty when it has none."""
    name: str
    """The value that it checks, as the program calls it: ``self.fc.weight``."""
    asks: str
    """The condition in words: ``shape [any, 8], dtype float32``."""
    chance: Chance
    why: str

    @property
    def compilation(self) -> str:
        """Return the name of the compilation, such as ``0/0``."""
        return self.of.name if self.of else ""

    @property
    def text(self) -> str:
        """Return everything that can be searched."""
        check = self.check
        place = f"{check.file}:{check.line}"
        return " ".join(
            (
                self.name,
                self.asks,
                self.guard_kind,
                check.kind,
                check.source,
                check.code,
                place,
                self.chance,
            )
        )


@dataclass(frozen=True, slots=True)
class GuardGroup:
    """The checks on one source, such as an argument, a model or a global."""

    title: str
    origin: model.Origin
    checks: tuple[ExplainedCheck, ...]

    @property
    def cost_ns(self) -> float:
        return sum(max(0.0, check.check.cost_ns) for check in self.checks)


def guard_groups(
    reader: SessionReader, compilation: int | None = None, search: str = ""
) -> list[GuardGroup]:
    """Group the checks, those that other inputs can make fail first. Only checks whose description
    has all words of ``search`` are returned.
    """
    groups: dict[tuple[int, str], list[ExplainedCheck]] = {}
    for check in explained_checks(reader, compilation):
        if all(word in check.text.lower() for word in search.lower().split()):
            groups.setdefault((_ORDER.index(check.check.origin), _title(check)), []).append(check)
    return [
        GuardGroup(title, checks[0].check.origin, tuple(checks))
        for (_, title), checks in sorted(groups.items(), key=_key)
    ]


def _key(item: tuple[tuple[int, str], object]) -> tuple[int, str]:
    return item[0]


def explained_checks(
    reader: SessionReader, compilation: int | None = None
) -> Iterator[ExplainedCheck]:
    """Yield the checks by compilation, in the order torch makes them."""
    if compilation is None:
        owners = reader.rows(model.Compilation)
    else:
        owners = reader.by_ids(model.Compilation, [compilation])
    for owner in owners:
        kinds = guard_kinds_of(reader, owner.id)
        checks = reader.rows(model.GuardCheck, compilation=owner.id)
        scale = _scale(checks, tree_cost_ns(reader, owner.id))
        for check in checks:
            explained_check = explained(check, owner, kinds.get(check.guard, ""))
            if scale < 1 and check.cost_ns > 0:
                scaled = replace(check, cost_ns=round(check.cost_ns * scale, 1))
                explained_check = replace(explained_check, check=scaled)
            yield explained_check


def tree_cost_ns(reader: SessionReader, compilation: int) -> float:
    """Return the cost of all checks of a compilation together in a call; NOT_MEASURED where it is
    not known.
    """
    metrics = reader.rows(model.Metric, compilation=compilation, name="guard_check_ns")
    if metrics:
        return float(json.loads(metrics[-1].value))
    return model.NOT_MEASURED


def _scale(checks: Iterable[model.GuardCheck], tree_ns: float) -> float:
    """Return the factor for the costs of single checks. A check measured alone takes longer than
    within the tree: if the costs add up to more than the tree's, they are scaled down to it.
    """
    whole = sum(max(0.0, check.cost_ns) for check in checks)
    if whole > 0 and tree_ns > 0:
        return min(1.0, tree_ns / whole)
    return 1.0


def explained(
    check: model.GuardCheck, of: model.Compilation | None = None, guard_kind: str = ""
) -> ExplainedCheck:
    """Explain a check of a compilation."""
    chance, why = can_fail(check, guard_kind, of)
    return ExplainedCheck(
        check, of, guard_kind, plain_source(check.source, of), asks(check, of), chance, why
    )


_ORDER: tuple[model.Origin, ...] = (
    "argument",
    "shapes",
    "closure",
    "global",
    "module",
    "state",
    "library",
)


def _title(check: ExplainedCheck) -> str:
    origin = check.check.origin
    if origin in ("shapes", "state", "library"):
        return {
            "shapes": "relations between sizes",
            "state": "settings of torch",
            "library": "torch and Python themselves",
        }[origin]
    begin = _BEGIN.search(check.check.source)
    if is_unfinished(check.check.source):
        return check.name
    name = check.name
    if begin:
        name = plain_source(check.check.source[begin.start() :], check.of)
    root = re.split(r"[.\[)]", name, maxsplit=1)[0]
    kind = {
        "argument": "argument",
        "closure": "enclosing variable",
        "global": "global",
        "module": "module",
    }[origin]
    return f"{kind} {root or 'aliases'}"


_BEGIN = re.compile(r"\b[LG]\['")


# what must stay

_TENSOR = re.compile(
    r"(?:torch\.(?P<dtype>\w+)), device=(?P<device>\w+), requires_grad=(?P<grad>\w+), "
    r"size=\[(?P<size>.*?)\]"
)

_STRIDE = re.compile(r"stride=\[(?P<stride>.*?)\]")

_KEYS = re.compile(r"DispatchKeySet\((?P<keys>.*?)\)")

_ASKS: dict[str, str] = {
    "TYPE_MATCH": "is a {type}",
    "ID_MATCH": "is the same object",
    "TRUE_MATCH": "is True",
    "FALSE_MATCH": "is False",
    "NONE_MATCH": "is None",
    "NO_TENSOR_ALIASING": "no two of the tensors are the same",
    "OBJECT_ALIASING": "these stay the same object",
    "DIMENSION_DYNAMIC_MARKING_GUARD": "no other dimension is marked dynamic (mark_dynamic)",
    "GLOBAL_STATE": (
        "grad mode, autocast, default dtype, deterministic algorithms and number of threads do "
        "not change"
    ),
    "TORCH_FUNCTION_MODE_STACK": "the same __torch_function__ modes are active",
    "DEFAULT_DEVICE": "torch.set_default_device stays as it is",
    "WEAKREF_ALIVE": "is still alive",
}


_CODE_ASKS = {
    "top_saved_tensors_hooks": "the same hooks for saved tensors are active",
    "not ___dict_contains('forward'": "no forward is set on the instance, only on its class",
}
"""Descriptions of checks that are Python functions, which are known by their code."""


def asks(check: model.GuardCheck, of: model.Compilation | None = None) -> str:
    """Describe the condition of a check in the terms of PyTorch's users, or in torch's own code
    where no description is known.
    """
    if check.kind == "TENSOR_MATCH":
        return _tensor_asks(check.code) or check.code
    plain = _ASKS.get(check.kind) or next(
        (words for part, words in _CODE_ASKS.items() if part in check.code), None
    )
    if plain:
        return plain.format(type=check.value_type.rpartition(".")[2])
    return plain_code(check.code, of)


def _tensor_asks(code: str) -> str:
    code = bounded(code)
    match, stride, keys = _TENSOR.search(code), _STRIDE.search(code), _KEYS.search(code)
    if match is None:
        return ""
    parts = [f"shape [{match['size'].replace('None', 'any')}]", f"dtype {match['dtype']}"]
    if stride:
        parts.append(f"stride ({stride['stride'].replace('None', 'any')})")
    dispatch_keys = keys["keys"] if keys else ""
    gradient = "requires grad" if match["grad"] == "True" else "no grad"
    parts += [f"device {_device(match['device'], dispatch_keys)}", gradient]
    return ", ".join(parts)


def _device(index: str, keys: str) -> str:
    """Return a device's name. torch checks a backend by its dispatch key, and a device by its
    index.
    """
    backend = keys.partition(",")[0].strip().lower()
    if index == "None":
        return backend
    return f"{backend}:{index}"


# whether it can fail

_IDENTITY = frozenset(
    {"ID_MATCH", "FUNCTION_MATCH", "BUILTIN_MATCH", "MODULE_MATCH", "CLASS_MATCH", "CLOSURE_MATCH"}
)


def can_fail(
    check: model.GuardCheck, guard_kind: str = "", of: model.Compilation | None = None
) -> tuple[Chance, str]:
    """Return whether a check can fail, and the reason. It depends on the value and on how it is
    checked; nothing is assumed about the program.
    """
    if check.origin == "state":
        return (
            "program",
            "a setting of torch: entering torch.no_grad() or autocast before the call changes it",
        )
    if check.origin == "library":
        return "hardly", "torch and Python themselves: only patching them changes it"
    if check.origin == "shapes":
        return _relation_chance(check)
    # A leaf of the tree may be of another kind than the guard that it is for.
    is_identity = check.kind in _IDENTITY or guard_kind in _IDENTITY
    if is_identity and check.origin != "argument":
        return "hardly", f"{plain_source(check.source, of)} would have to be reassigned"
    if check.origin == "module":
        return _module_chance(check)
    if check.origin == "argument":
        if of is not None and resumed_at(of.function) > 0:
            return "inputs", "computed before the graph break, from the inputs"
        return "inputs", "it comes with the call"
    if check.origin == "closure":
        where = "a variable of the enclosing function"
    else:
        where = "a global"
    return "program", f"{where}: the program may set it between two calls"


def _relation_chance(check: model.GuardCheck) -> tuple[Chance, str]:
    if "L['" in check.code:
        return "inputs", "the sizes come from the inputs"
    return "program", "about a global number: the program may set it between two calls"


def _module_chance(check: model.GuardCheck) -> tuple[Chance, str]:
    if check.kind == "TYPE_MATCH" and _is_structure(check):
        return "hardly", "a part of the model would have to be replaced by one of another class"
    if check.kind in ("TENSOR_MATCH", "DIMENSION_DYNAMIC_MARKING_GUARD", "NO_TENSOR_ALIASING"):
        return "program", "a tensor of the model: .to(), .half() or requires_grad_() changes it"
    if plain_source(check.source).endswith(".training"):
        return "program", "model.train() and model.eval() change it"
    return "program", "an attribute of the model: the program may set it between two calls"


def _is_structure(check: model.GuardCheck) -> bool:
    """Return whether the check is on a module, or on the dicts of modules, parameters and
    buffers.
    """
    last = re.search(r"\._(?:modules|parameters|buffers)(?:\['\w+'\])?$|^L\['\w+'\]$", check.source)
    return last is not None


# what other inputs were told


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answers of guards to one question about other inputs, by compilation."""

    question: int
    inputs: str
    answers: tuple[model.GuardAnswer, ...]


def verdicts(reader: SessionReader) -> list[Verdict]:
    """Return the verdicts, the latest first."""
    by_question: dict[int, list[model.GuardAnswer]] = {}
    for row in reader.rows(model.GuardAnswer):
        by_question.setdefault(row.question, []).append(row)
    return [
        Verdict(number, rows[0].inputs, tuple(rows))
        for number, rows in sorted(by_question.items(), reverse=True)
    ]


def format_check_cost(cost_ns: float) -> str:
    """Return ``120 ns``, ``1.3 µs`` or ``not measured``."""
    if cost_ns < 0:
        return "not measured"
    if cost_ns < 1000:
        return f"{cost_ns:.0f} ns"
    return f"{cost_ns / 1000:.1f} µs"


def most_expensive(checks: Iterable[ExplainedCheck], count: int = 2) -> str:
    """Return ``relations between sizes (505 ns) and argument x (72 ns)``: the groups
    (``guard_groups``) whose checks take most time.
    """
    costs: dict[str, float] = {}
    for check in checks:
        name = _title(check)
        costs[name] = costs.get(name, 0.0) + max(0.0, check.check.cost_ns)
    costly = sorted(
        (name for name, cost in costs.items() if cost > 0), key=lambda name: -costs[name]
    )
    return listed((f"{name} ({format_check_cost(costs[name])})" for name in costly[:count]), count)
