"""All graph breaks of a model, not only the first.

A full-graph capture stops at the first break. The others are found by a second, tolerant pass that
runs the model: torch's ``dynamo_graph_break_reason`` records (torch/_dynamo/symbolic_convert.py,
``log_graph_break``) tell each of them, data-dependent branches included, which
``torch._dynamo.explain`` leaves out.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from fx_explorer.capture.torch_compat.trace_calls import ARTIFACT, TraceCall, heard_trace_calls
from fx_explorer.precompile.errors import GraphBreakError
from fx_explorer.torch_texts.break_report import BreakReport, parse_break

_RAN = (
    "They were found by running a deep copy of the model on copies of the inputs: what the model prints, it printed once more. "
    "A break on a path that these inputs do not take is not listed."
)


def graph_break_error(
    model: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    first: Exception,
) -> GraphBreakError:
    """Return the error that lists every break. It executes the user's code, on deep copies, and
    empties Dynamo's caches.
    """
    reports: list[str] = []
    note = _RAN
    try:
        model, args, kwargs = copy.deepcopy((model, args, kwargs))
    except Exception as error:  # noqa: BLE001 anything may come out of the user's __deepcopy__
        note = f"Only the first is listed: the model cannot be copied for a run that finds the others ({_in_a_line(error)})."
    else:
        try:
            with _break_reports(reports):
                _run(model, args, kwargs)
        except Exception as error:  # noqa: BLE001 the user's own program raised; the message says so
            note = f"{_RAN} There may be more: that run ended with {_in_a_line(error)}."
    return GraphBreakError(_distinct(reports) or (parse_break(str(first)),), note)


def _run(model: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    devices = range(torch.cuda.device_count())
    torch._dynamo.reset()  # a frame that Dynamo has skipped before would not be looked at again
    try:
        with torch.random.fork_rng(devices=devices):
            torch.compile(model, backend="eager")(*args, **kwargs)
    finally:
        torch._dynamo.reset()


@contextlib.contextmanager
def _break_reports(reports: list[str]) -> Iterator[None]:
    def hear(call: TraceCall) -> None:
        if call.name == ARTIFACT and call.kind == f"{ARTIFACT}:dynamo_graph_break_reason":
            reports.append(call.payload() or "")

    with heard_trace_calls(hear):
        yield


def _distinct(reports: list[str]) -> tuple[BreakReport, ...]:
    """Return each place and reason once: torch reports a break again when it gives up on the
    function around it.
    """
    found: dict[tuple[str, int, str], BreakReport] = {}
    causes: set[str] = set()
    for report in map(parse_break, reports):
        cause = report.registry_id or report.reason
        if not (report.is_given_up and cause in causes):
            hints = tuple(dict.fromkeys(report.hints))
            found.setdefault((report.file, report.line, cause), replace(report, hints=hints))
        causes.add(cause)
    return tuple(found.values())


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
