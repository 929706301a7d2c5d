"""The backend: from the graph that torch.compile hands over to a function that runs it. Begin to read here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from sample_backends.small_backend.cache import made
from sample_backends.small_backend.library import library
from sample_backends.small_backend.partition import partitioned, segments_of
from sample_backends.small_backend.segment import Segment
from sample_backends.small_backend.stages import Stages
from sample_backends.small_backend.support import SmallSupport


def small(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: ``torch.compile(model, backend=small)``.

    AOTAutograd makes of it a graph of ATen operators without side effects, one for the forward and
    one for the backward, and gives each to ``compiled``.
    """
    library()  # without a compiler this is the place to say so, before anything else is done
    compile_graph = aot_autograd(
        fw_compiler=functools.partial(compiled, direction="forward"),
        bw_compiler=functools.partial(compiled, direction="backward"),
        inference_compiler=functools.partial(compiled, direction="inference"),
    )
    function: Callable[..., Any] = compile_graph(graph_module, example_inputs)
    return function


small.operator_support = SmallSupport()  # type: ignore[attr-defined]  # fx-explorer's support report asks it


def compiled(
    graph_module: GraphModule, example_inputs: Sequence[Any], direction: str
) -> Callable[..., Any]:
    """Return a function that computes the graph: its segments by our programs, the rest by PyTorch."""
    shown, support = Stages(graph_module, direction), SmallSupport()
    shown.support(support)
    cut = partitioned(graph_module, support)
    shown.segments(cut)
    segments = segments_of(cut)
    with (
        _disable_current_modes()
    ):  # torch compiles with tensors that have no content, and constants have one
        found = {name: made(segment) for name, segment in segments.items()}
    shown.programs(
        {name: each for name, (each, _) in found.items()},
        {name: origin for name, (_, origin) in found.items()},
    )
    for name, segment in segments.items():
        setattr(cut, name, Segment(found[name][0], by_pytorch=segment))
    return make_boxed_func(lambda *inputs: shown.run(cut, inputs))
