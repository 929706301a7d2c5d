"""This module says which other choices there are at a decision of Inductor's: another order of a
value in memory, another candidate, an option. Each can be tried: the graph is compiled a second
time with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.other_variants import words_for_order
from fx_explorer.instruments.decisions.figures import Explained
from fx_explorer.model import CandidateChange, Changes, LayoutChange
from fx_explorer.model.setting_values import python_text
from fx_explorer.session import SessionReader

LOWERING: model.Gate = "post_grad"
"""The stage from which the graph is compiled again: lowering and code are all that is redone."""

COMPILING: model.Gate = "partition"
"""The stage for what Inductor reads before it lowers, and notes in the graph."""


@dataclass(frozen=True, slots=True)
class OtherChoice:
    """Another choice at a decision."""

    name: str
    """By which the command takes it: ``contiguous``, ``mm``, ``layout_optimization``."""
    words: str
    """What is tried, for a menu: ``relu in channels_last, where it is made``."""
    detail: str
    changes: Changes
    gate: model.Gate = LOWERING
    """The stage from which the graph is compiled again."""


def other_choices(reader: SessionReader, explained: Explained) -> list[OtherChoice]:
    """Return what can be tried at a decision; empty where there is nothing."""
    row, direction = explained.decision, explained.kernel.direction
    nodes = {node.id: node.name for node in reader.by_ids(model.Node, {row.node, row.about} - {0})}
    choices: list[OtherChoice] = []
    if row.kind == "layout":
        choices += _layouts(row, nodes.get(row.about, ""), explained.value, direction)
    node = nodes.get(row.node, "")
    if node and row.texts.get("candidates"):
        choices += _candidates(row, node, explained.kernel, direction)
    choices += _options(row)
    return choices


def why_no_other(explained: Explained) -> str:
    """Return why there is nothing to try at a decision, in a sentence."""
    row = explained.decision
    is_on_cpu = row.texts.get("device") == "cpu"
    match row.kind:
        case "attention":
            return (
                "torch chose this attention before Inductor got the graph: another needs other "
                "arguments of scaled_dot_product_attention."
            )
        case "library call" if row.outcome in ("autotuning off", "no template") and is_on_cpu:
            return (
                "There is no other candidate on this CPU: Inductor's C++ templates take constant "
                "weights only, and torch's library is all that is left."
            )
        case "library call":
            return "There is no other candidate: this library call is all that Inductor has for it."
        case "layout":
            return "Inductor does not say between which orders it chose here."
    return "No option of Inductor's changes this choice by itself."


# Layouts.


def _layouts(
    row: model.KernelDecision, node: str, value: str, direction: model.Direction
) -> Iterator[OtherChoice]:
    value = value.replace("The result of", "the result of") or node
    texts = row.texts
    to, before = _order(texts.get("to", "")), _order(texts.get("from", ""))
    rank = len(to or before)
    contiguous = tuple(range(rank - 1, -1, -1))
    orders: dict[tuple[int, ...], str] = {}
    if row.outcome == "copied":
        orders[to] = "from the start, in place of a copy"
    else:
        orders[before or contiguous] = "and whoever needs the other order copies it"
    orders.setdefault(contiguous, "as eager mode makes a new tensor")
    if rank == 4:
        orders.setdefault((3, 0, 2, 1), "the channels next to each other")
    kept = before if row.outcome == "copied" else to
    for order, detail in orders.items():
        if node and len(order) > 1 and order != kept:
            name = words_for_order(order).removesuffix(" order").removeprefix("the order ")
            changes = Changes(layouts=(LayoutChange(node, order, direction),))
            yield OtherChoice(name, f"{value} in {words_for_order(order)}", detail, changes)
    if texts.get("channels_last") == "True":
        yield _option(
            "inductor.layout_optimization",
            False,
            "convolutions keep the order that their input has",
        )
    if row.reason == "output":
        detail = "results need not have the strides of eager mode"
        option = _option("inductor.keep_output_stride", False, detail)
        yield replace(option, gate=COMPILING)


def _order(strides: str) -> tuple[int, ...]:
    """Return for each dimension how many have a smaller stride. Of equal strides that of the inner
    dimension counts as the smaller.
    """
    steps = [int(part) for part in re.findall(r"-?\d+", strides)]
    innermost_first = sorted(range(len(steps)), key=lambda dim: (steps[dim], -dim))
    order = [0] * len(steps)
    for place, dim in enumerate(innermost_first):
        order[dim] = place
    return tuple(order)


# Candidates.


def _candidates(
    row: model.KernelDecision, node: str, kernel: model.Kernel, direction: model.Direction
) -> Iterator[OtherChoice]:
    for candidate in row.texts["candidates"].split("\n"):
        is_taken = kernel.language == "extern" and kernel.name.endswith(candidate)
        if not is_taken:
            name, _, options = candidate.partition(" ")
            changes = Changes(candidates=(CandidateChange(node, candidate, direction),))
            words = f"{node} by {name}" if options else f"{node} by the library's {name}"
            yield OtherChoice(candidate, words, options or "no template", changes)


# Options.

_PREFIX = "torch._inductor.config."


def _options(row: model.KernelDecision) -> Iterator[OtherChoice]:
    texts = row.texts
    for option in filter(None, texts.get("options", "").split(", ")):
        name, _, value = option.partition(" = ")
        if name.startswith(_PREFIX):
            short = f"inductor.{name.removeprefix(_PREFIX)}"
            yield _option(
                short, value != "True", "Inductor's own check then does not choose the library call"
            )
    for_outcome = _BY_OUTCOME.get((row.kind, row.outcome))
    if for_outcome is None and row.kind == "library call":
        for_outcome = _more_candidates(row)
    if for_outcome is not None:
        name, settings, detail = for_outcome
        yield OtherChoice(name, _words(settings), detail, Changes(dict(settings)))


_Offer = tuple[str, Mapping[str, object], str]
"""Name, settings and detail of an option."""

_BY_OUTCOME: Mapping[tuple[str, str], _Offer] = {
    ("reduction", "split"): (
        "split_reductions",
        {"inductor.split_reductions": False},
        "one reduction, not two",
    ),
    ("reduction", "persistent"): (
        "persistent_reductions",
        {"inductor.triton.persistent_reductions": False},
        "a loop over the elements of a result",
    ),
    ("tiles", "two dimensions"): (
        "max_tiles",
        {"inductor.triton.max_tiles": 1},
        "blocks along one dimension",
    ),
    ("threads", "parallel"): ("threads", {"inductor.cpp.threads": 1}, "one thread"),
    ("threads", "too small"): (
        "min_chunk_size",
        {"inductor.cpp.min_chunk_size": 1},
        "threads share the loop, however few elements each gets",
    ),
}


def _more_candidates(row: model.KernelDecision) -> _Offer | None:
    """Return the option with which Inductor has templates to choose from."""
    texts = row.texts
    is_on_cpu = texts.get("device") == "cpu"
    if row.outcome == "autotuning off" and not is_on_cpu:
        settings: dict[str, object] = {"inductor.max_autotune_gemm": True}
        return "max_autotune_gemm", settings, "Triton templates stand beside the library call"
    if row.outcome == "autotuning off" and "use_cpp_bmm_template" in row.texts.get("answers", ""):
        settings = {"inductor.max_autotune": True}
        return "max_autotune", settings, "Inductor's C++ template stands beside the library call"
    if row.outcome == "backend off" and not is_on_cpu:
        backends = f"{texts.get('backends', '')},TRITON".removeprefix(",")
        settings = {"inductor.max_autotune_gemm_backends": backends}
        return "max_autotune_gemm_backends", settings, "Triton templates are considered"
    return None


def _option(setting: str, value: object, detail: str) -> OtherChoice:
    name = setting.rpartition(".")[2]
    return OtherChoice(name, _words({setting: value}), detail, Changes({setting: value}))


def _words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {python_text(value)}" for name, value in settings.items())


def choice_named(choices: Sequence[OtherChoice], name: str) -> OtherChoice | None:
    """Return the choice that the user means by its name, or by a part that no other has."""
    named = [choice for choice in choices if choice.name == name]
    named = named or [choice for choice in choices if name in choice.name]
    return named[0] if len(named) == 1 else None
