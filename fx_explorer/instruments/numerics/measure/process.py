"""This module is a process like the worker that does one task of ``numerics``, in a process of its
own, because what is compiled may hang or end it.

Its first line of input is a ``NumericsTask``. It answers with one ``BenchNews`` of the kind
``compared``, whose ``cell`` has what was learned, or ``failed``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fx_explorer.instruments.bench.measure.contender import caller_of, news_of_failure, news_sender
from fx_explorer.model import BenchNews, NumericsTask
from fx_explorer.model.numerics import BY_TF32
from fx_explorer.program.usable_torch import import_compiler, import_torch

if TYPE_CHECKING:
    from fx_explorer.instruments.bench.measure.agreement import Reference
    from fx_explorer.instruments.bench.measure.calls import Caller, NetworkState, Results

Say = Callable[[str], None]


def main(notices: int, commands: int) -> None:
    send = news_sender(notices)

    def say(text: str) -> None:
        send(BenchNews("doing", text=text))

    with os.fdopen(commands, encoding="utf-8") as lines:
        task = NumericsTask.from_json(lines.readline())
        try:
            send(BenchNews("compared", cell=_answer(task, say)))
        except BaseException as error:  # noqa: BLE001
            # whatever the program raises is told, and the process ends
            send(news_of_failure(error))
        lines.readline()
    os._exit(0)  # no thread of the program keeps it


def _answer(task: NumericsTask, say: Say) -> dict[str, Any]:
    """Do the task. Raises whatever the program or the compiler raises."""
    say("importing torch")
    import_torch()
    if task.is_compiled:
        import_compiler()
    work = {
        "reference": _reference,
        "compare": _compare,
        "locate": _locate,
        "decompositions": _decompositions,
        "writes": _writes,
        "random": _random,
        "bisect": _bisect,
        "minify": _minify,
    }
    return work[task.work](task, say)


def _reference(task: NumericsTask, say: Say) -> dict[str, Any]:
    """Run the program in eager mode and in float64, and write the results to a file."""
    import torch

    from fx_explorer.instruments.bench.measure.agreement import reference_of
    from fx_explorer.instruments.bench.measure.calls import NetworkState, is_on_gpu

    caller, notes = caller_of(task.task, say)
    say("running it in eager mode and in float64")
    reference = reference_of(caller, NetworkState(caller.target.network))
    reference.save(task.task.reference)
    device = torch.cuda.get_device_name() if is_on_gpu(caller) else "cpu"
    return {
        "target": caller.target.name,
        "inputs": caller.target.arguments.describe(),
        "device": device,
        "torch": torch.__version__,
        "trains": caller.trains,
        "is_random": bool(reference.varies),
        "is_not_finite": not _are_finite(reference.results[0]),
        "notes": notes,
    }


def _are_finite(results: Results) -> bool:
    floats = [tensor for tensor in results.values() if tensor.is_floating_point()]
    return all(bool(tensor.isfinite().all()) for tensor in floats)


def _compare(task: NumericsTask, say: Say) -> dict[str, Any]:
    """Run the program compiled, and compare its results with those of eager mode."""
    from fx_explorer.capture.torch_compat.private_names import counters
    from fx_explorer.instruments.bench.measure import agreement

    caller, plain, state = _program(task, say)
    reference = agreement.Reference.load(task.task.reference)
    begins_with = agreement.content(caller)
    say("compiling it, and comparing its results")
    results = _results(caller, state)
    agreed = agreement.agreement(reference, results, begins_with)
    if agreed["agreement"] == "differs":
        other = agreement.path_while_compiling(reference, results, plain, state)
        agreed["agreement_words"] = "; ".join(filter(None, (agreed["agreement_words"], other)))
        agreed["other_path"] = bool(other)
    graphs = int(counters["stats"]["unique_graphs"])
    is_repeatable = _is_repeatable(caller, state, results[0])
    more = agreement.next_comparison(reference, agreed)
    if more:
        say(more)
        words = str(agreed["agreement_words"])
        agreed |= agreement.agreement_otherwise(reference, caller, state, agreed)
        if BY_TF32 in str(agreed["agreement_words"]):
            agreed["agreement"] = "within_error"  # the program allows that rounding itself
        agreed["with_eagers_numbers"] = more == agreement.EAGERS_NUMBERS and (
            agreed["agreement_words"] != words
        )
    return {**agreed, "is_repeatable": is_repeatable, "graphs": graphs}


def _results(caller: Caller, state: NetworkState) -> list[Results]:
    from fx_explorer.instruments.bench.measure.calls import observed

    return [observed(caller, state), observed(caller.with_other_values(), state)]


def _is_repeatable(caller: Caller, state: NetworkState, first: Results) -> bool:
    """Return whether another call of the compiled program gives the same results."""
    from fx_explorer.instruments.bench.measure.calls import observed
    from fx_explorer.program.equal_results import is_within_tolerance

    again = observed(caller, state)
    return all(
        name in again and is_within_tolerance(again[name], tensor) for name, tensor in first.items()
    )


def _program(task: NumericsTask, say: Say) -> tuple[Caller, Caller, NetworkState]:
    """Return the compiled program, the same uncompiled, and its state."""
    from fx_explorer.instruments.bench.measure.calls import NetworkState, uncompiled

    caller, _ = caller_of(task.task, say)
    plain = replace(caller, function=uncompiled(caller.target.callable))
    return caller, plain, NetworkState(caller.target.network)


def _locate(task: NumericsTask, say: Say) -> dict[str, Any]:
    from fx_explorer.instruments.numerics.measure.locating import (
        locate,
        record_program,
        traits,
    )

    _, plain, state = _program(task, say)
    say("compiling it, and recording its graphs")
    record = record_program(plain, plain.function, state, task.task.request)
    finding = locate(record, say)
    return {
        "finding": asdict(finding) if finding else None,
        "traits": traits(record),
        "not_compared": record.not_compared,
        "graphs": len(record.graphs),
        "calls": sum(len(graph.calls) for graph in record.graphs),
    }


def _decompositions(task: NumericsTask, say: Say) -> dict[str, Any]:
    from fx_explorer.instruments.numerics.measure.compared_decompositions import wrong_decomposition

    _, plain, state = _program(task, say)
    say("comparing each operator with its decomposition")
    finding, not_compared = wrong_decomposition(plain, plain.function, state, task.task.request)
    return {"finding": asdict(finding) if finding else None, "not_compared": not_compared}


def _writes(task: NumericsTask, say: Say) -> dict[str, Any]:
    from fx_explorer.instruments.numerics.measure.functionalization import wrong_write

    _, plain, state = _program(task, say)
    say("comparing each write into a tensor with its functionalization")
    finding, not_compared = wrong_write(plain, plain.function, state, task.task.request)
    return {"finding": asdict(finding) if finding else None, "not_compared": not_compared}


def _random(task: NumericsTask, say: Say) -> dict[str, Any]:
    from fx_explorer.instruments.numerics.measure.random_operators import random_operators

    _, plain, state = _program(task, say)
    say("looking for the operators that draw random numbers")
    return {"random": random_operators(plain, plain.function, state, task.task.request)}


def _bisect(task: NumericsTask, say: Say) -> dict[str, Any]:
    from fx_explorer.instruments.bench.measure import agreement
    from fx_explorer.instruments.numerics.measure.bisecting import bisected

    caller, plain, state = _program(task, say)
    reference: Reference = agreement.Reference.load(task.task.reference)
    begins_with = agreement.content(caller)

    def is_right(function: Callable[..., Any]) -> bool:
        results = _results(replace(plain, function=function), state)
        agreed = agreement.agreement(reference, results, begins_with)
        return agreed["agreement"] != "differs"

    return {"bisected": bisected(plain.function, task.task.request, is_right, say)}


def _minify(task: NumericsTask, say: Say) -> dict[str, Any]:
    from fx_explorer.instruments.numerics.measure.locating import record_program
    from fx_explorer.instruments.numerics.measure.smallest import write_smallest

    _, plain, state = _program(task, say)
    record = record_program(plain, plain.function, state, task.task.request)
    return {"smallest": write_smallest(record, task, say)}
