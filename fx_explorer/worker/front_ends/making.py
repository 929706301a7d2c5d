"""Call one front end as its documentation does, and return its graph. Nothing here records.

A module is traced in the mode that it is in; a function that takes its arguments by name is traced with them as well.
Where a front end records user stacks only when it is asked, it is: the nodes are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from fx_explorer.worker.target.inputs import Arguments


@dataclass(frozen=True, slots=True)
class Made:
    """A front end's graph, and what only ``torch.export`` says about it."""

    module: torch.fx.GraphModule
    inputs: dict[str, object] | None = None
    outputs: dict[str, object] | None = None
    ranges: dict[str, object] | None = None
    remarks: list[str] = field(default_factory=list)


def symbolic_trace(function: Callable[..., Any], arguments: Arguments) -> Made:
    """Return what ``torch.fx.symbolic_trace`` makes. It takes no inputs."""
    tracer = torch.fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(function)
    return Made(torch.fx.GraphModule(tracer.root, graph))


def export(function: Callable[..., Any], arguments: Arguments) -> Made:
    """Return what ``torch.export.export`` makes. It takes modules only, so a function becomes the forward of one."""
    remarks = []
    if not isinstance(function, torch.nn.Module):
        function = _Function(function)
        remarks.append("torch.export takes modules only: the function was made the forward of one.")
    program = torch.export.export(function, arguments.args, arguments.kwargs)
    signature = program.graph_signature
    return Made(
        program.graph_module,
        _kinds(signature.input_specs),
        _kinds(signature.output_specs),
        {str(size): str(range_) for size, range_ in program.range_constraints.items()},
        remarks,
    )


def trace_to_aten(function: Callable[..., Any], arguments: Arguments) -> Made:
    """Return what ``make_fx`` makes of a call with real tensors. It takes positional arguments only."""
    options = (
        {"record_stack_traces": True}
        if "record_stack_traces" in inspect.signature(make_fx).parameters
        else {}
    )
    if not arguments.keywords and not _has_defaults(function, arguments):
        return Made(make_fx(function, **options)(*arguments.args))
    names, count = tuple(arguments.keywords), len(arguments.args)

    def by_position(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    remarks = (
        [f"make_fx takes positional arguments only: {', '.join(names)} became such."]
        if names
        else []
    )
    if _has_defaults(function, arguments):
        remarks.append(
            "make_fx wants a value for every argument of a function: those left out have their defaults."
        )
    return Made(
        make_fx(by_position, **options)(*arguments.args, *arguments.keywords.values()),
        remarks=remarks,
    )


def _has_defaults(function: Callable[..., Any], arguments: Arguments) -> bool:
    """Return whether a plain function has arguments that the call leaves to their defaults."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount > len(arguments.args) + len(arguments.keywords)


FRONT_ENDS: dict[str, Callable[[Callable[..., Any], Arguments], Made]] = {
    "symbolic_trace": symbolic_trace,
    "export": export,
    "make_fx": trace_to_aten,
}


class _Function(torch.nn.Module):
    """A module whose forward is a function of the user's."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _kinds(specs: list[Any]) -> dict[str, object]:
    counts: dict[str, object] = {}
    for spec in specs:
        count = counts.get(spec.kind.name, 0)
        counts[spec.kind.name] = count + 1 if isinstance(count, int) else 1
    return counts
