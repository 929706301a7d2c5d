"""Graph breaks that are no matter of the line they are at: the backend raised an error for the
graph, torch's optimizers break around their step by design, a learning rate scheduler puts a
wrapper around it, and DistributedDataParallel breaks around the model inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fx_explorer.analysis.whole_session import compiled_graphs
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.known_errors import as_remedy, known_error
from fx_explorer.findings.skipped_functions import functions_left_out
from fx_explorer.instruments.breaks.break_owners import BreakInTorch
from fx_explorer.instruments.breaks.grouped import DistinctBreak, what_the_backend_raised
from fx_explorer.instruments.breaks.not_resumed import together
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

MOST_PLACES = 4


def names_left_out(reader: SessionReader, graph_breaks: Sequence[DistinctBreak]) -> Iterator[str]:
    """Yield which functions are not compiled because of these breaks."""
    left_out = functions_left_out(reader)
    names = [name for row in graph_breaks for name in left_out.get((row.file, row.line), ())]
    if names:
        yield f"Not compiled because of this: {listed(list(dict.fromkeys(names)), MOST_PLACES)}."
        reasons = dict.fromkeys(reason for row in graph_breaks for reason in row.not_resumed)
        if reasons:
            yield f"Torch cannot resume there: {together(list(reasons))}."


def failed_backend(reader: SessionReader, graph_breaks: Sequence[DistinctBreak]) -> Finding:
    """Return that the backend raised one error for these breaks. After an error Dynamo compiles
    each function that the failed one calls by itself, and the same error is raised again for each
    that contains the operator: the innermost, which comes last, is nearest to it.
    """
    hits = sum(row.count for row in graph_breaks)
    times = f" ({hits} times)" if hits > 1 else ""
    innermost = max(graph_breaks, key=_order)
    known = known_error(f"{innermost.reason}\n{innermost.explanation}")
    where = in_file(innermost.file, innermost.line) if innermost.file else "somewhere"
    failed = what_the_backend_raised(innermost.reason, f"at {where}{times}")
    evidence = [first_line(innermost.explanation)]
    if not compiled_graphs(reader):
        evidence.append("No graph runs compiled.")
    others = [row for row in graph_breaks if row is not innermost and row.file]
    if others:
        callers = listed([in_file(row.file, row.line) for row in others], MOST_PLACES)
        evidence.append(f"Functions that call it could not be compiled either: {callers}.")
    evidence += names_left_out(reader, graph_breaks)
    evidence += _rests(graph_breaks)
    is_lost = any(row.eager_rests or row.cost.functions_in_python for row in graph_breaks)
    return Finding(
        kind="graph break",
        text=f"The {failed.removeprefix('the ')}.",
        urgency="not compiled" if is_lost else "slow",
        topic="breaks",
        place=innermost.place,
        view="breaks",
        evidence=tuple(evidence),
        explanation=known.explanation if known else "",
        remedies=tuple(as_remedy(text) for text in known.remedies) if known else (),
        count=hits,
        cost_s=sum(row.cost.run_s or 0.0 for row in graph_breaks),
    )


def _order(graph_break: DistinctBreak) -> tuple[int, ...]:
    """Return the numbers of a break's last compilation: ``(12, 0)`` of ``12/0``."""
    if not graph_break.compilations:
        return ()
    last = graph_break.compilations[-1].partition("_")[0]
    return tuple(int(part) for part in last.split("/") if part.isdigit())


def _rests(graph_breaks: Sequence[DistinctBreak]) -> Iterator[str]:
    rests = [rest.description.rstrip(",") for row in graph_breaks for rest in row.eager_rests]
    if rests:
        run = "runs" if len(rests) == 1 else "run"
        yield f"Torch cannot resume there: {listed(rests, MOST_PLACES)} {run} in eager mode."


def is_of_optimizer(graph_break: DistinctBreak) -> bool:
    """Return whether one of torch's optimizers breaks the graph itself around its step."""
    torchs = graph_break.elsewhere
    if isinstance(torchs, BreakInTorch):
        return "torch/optim/" in torchs.what
    return "torch/optim/" in graph_break.explanation.replace("\\", "/")


_LR_SCHEDULER = "torch/optim/lr_scheduler.py"


def is_of_scheduler(graph_break: DistinctBreak) -> bool:
    """Return whether a learning rate scheduler breaks the graph: it replaces the optimizer's step
    by a wrapper of its own, which Dynamo skips.
    """
    return _LR_SCHEDULER in graph_break.explanation.replace("\\", "/")


def steps_of_schedulers(graph_breaks: Sequence[DistinctBreak]) -> Finding:
    """Return that the wrapper of a learning rate scheduler around the step breaks the graph."""
    return _by_design(
        graph_breaks,
        f"{_listed_places(graph_breaks)} breaks the graph ({_times(graph_breaks)}): a learning "
        f"rate scheduler replaced the optimizer's step by a wrapper ({_LR_SCHEDULER}) that Dynamo "
        "skips.",
        "The wrapper records for the scheduler that step was called, then calls the optimizer's "
        "own step, where Dynamo begins a new graph.",
    )


def steps_of_optimizers(graph_breaks: Sequence[DistinctBreak]) -> Finding:
    """Return that the step of an optimizer breaks the graph around itself."""
    return _by_design(
        graph_breaks,
        f"{_listed_places(graph_breaks)} breaks the graph ({_times(graph_breaks)}): torch's "
        "optimizers break it themselves around their step.",
        "PyTorch compiles an optimizer this way: the update inside of step() is a graph of its "
        "own. No change is needed.",
    )


def around_models_of_ddp(graph_breaks: Sequence[DistinctBreak]) -> Finding:
    """Return that DistributedDataParallel breaks the graph around the model inside it."""
    finding = _by_design(
        graph_breaks,
        "torch's DistributedDataParallel breaks the graph itself "
        f"({_times(graph_breaks)}), around your model and not inside it.",
        graph_breaks[0].hints[0],
    )
    where = listed([in_file(row.file, row.line) for row in graph_breaks if row.file])
    return replace(finding, evidence=(f"It breaks at {where}.",))


def _by_design(graph_breaks: Sequence[DistinctBreak], text: str, explanation: str) -> Finding:
    """Return the finding on breaks that torch makes itself, and that are no fault."""
    return Finding(
        kind="graph break",
        text=text,
        urgency="minor",
        severity="notice",
        topic="breaks",
        place=graph_breaks[0].place,
        view="breaks",
        explanation=explanation,
        count=sum(row.count for row in graph_breaks),
    )


def _listed_places(graph_breaks: Sequence[DistinctBreak]) -> str:
    places = dict.fromkeys(in_file(row.file, row.line) for row in graph_breaks if row.file)
    return listed(list(places))


def _times(graph_breaks: Sequence[DistinctBreak]) -> str:
    return counted(sum(row.count for row in graph_breaks), "time")
