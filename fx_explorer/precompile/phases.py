"""This module has two phases of a precompile: Dynamo runs once over a whole model, and a compiler
makes of the captured graph something that runs.

Dynamo computes nothing; the first graph break is returned, not raised. The compiler is Inductor, or
one of the user's under AOTAutograd, which is watched.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx.passes.regional_inductor import regional_inductor

from fx_explorer.capture.aot.regional import KEY, keep_regions_separate
from fx_explorer.capture.torch_compat.private_names import (
    TensorifyScalarRestartAnalysis,
    UncapturedHigherOrderOpError,
    Unsupported,
    _get_frame,
    convert_frame,
    dynamo_timed,
    get_metrics_context,
)
from fx_explorer.precompile.errors import CompilerError, PrecompileError, PrecompileWarning

Compiler = Callable[..., Any]
Backend = Callable[[torch.fx.GraphModule, Sequence[object]], Callable[..., Any]]


def name_of(compiler: Compiler | None) -> str:
    if compiler is None:
        return "inductor"
    return str(getattr(compiler, "__name__", None) or type(compiler).__name__)


def lower(
    compiler: Compiler | None, gm: torch.fx.GraphModule, inputs: Sequence[object]
) -> Callable[..., Any]:
    """Run AOTAutograd, then the compiler. Raises CompilerError when the compiler that was given
    does not do its part, and PrecompileError when Dynamo would have to capture the graph again.
    """
    try:
        return _lowered(compiler, gm, inputs)
    except TensorifyScalarRestartAnalysis as error:  # in torch.compile, Dynamo restarts
        raise PrecompileError(
            "a number of the model, such as the momentum of a BatchNorm, has to be a constant, "
            "but dynamic=True has made it symbolic. Capture the model under "
            "torch._dynamo.config.patch(specialize_float=True), or leave dynamic out and mark the "
            "sizes that vary: torch._dynamo.mark_dynamic(x, 0)"
        ) from error


def _lowered(
    compiler: Compiler | None, gm: torch.fx.GraphModule, inputs: Sequence[object]
) -> Callable[..., Any]:
    if compiler is None:
        from fx_explorer.capture.torch_compat.private_names import compile_fx

        return compile_fx.compile_fx(gm, list(inputs))
    watched = CheckedCompiler(compiler)
    run = aot_backend(watched, watched)(gm, inputs)
    watched.warn_of_unmarked()
    return run


def aot_backend(forward: Compiler, backward: Compiler) -> Backend:
    """Put torch's AOTAutograd around two compilers, partitioned as Inductor does."""
    from fx_explorer.capture.torch_compat.private_names import (
        aot_autograd,
        min_cut_rematerialization_partition,
    )

    backend: Backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=forward,
        partition_fn=min_cut_rematerialization_partition,
        # As Inductor has it: the graph itself writes to an input that the model changes.
        keep_inference_input_mutations=True,
    )
    return backend


class CheckedCompiler:
    """CheckedCompiler wraps the user's compiler: if it raises, returns something wrong or breaks
    the graph, the error names the compiler.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._calls = 0
        self._marked = 0

    @property
    def __name__(self) -> str:
        return name_of(self._compiler)

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[object]) -> Callable[..., Any]:
        self._calls += 1
        nodes, ends = len(gm.graph.nodes), _ends(gm)
        size = "1 node" if nodes == 1 else f"{nodes} nodes"
        where = f"the compiler {name_of(self._compiler)}, given graph {self._calls} ({size})"
        try:
            compiled = self._compiled(gm, inputs)
        except Exception as error:
            raise CompilerError(f"{where}, raised {type(error).__name__}: {error}") from error
        if not callable(compiled):
            what = f"returned {compiled!r:.80}, which is not callable"
            raise CompilerError(
                f"{where}, {what}: return the graph module, its forward, or a function of "
                "the graph's inputs"
            )
        self._check(gm, compiled, ends, where)
        return _boxed(compiled)

    def _compiled(self, gm: torch.fx.GraphModule, inputs: Sequence[object]) -> Any:
        if self._compiler is not regional_inductor:
            return self._compiler(gm, inputs)
        with keep_regions_separate(gm) as marked:
            self._marked += marked
            return self._compiler(gm, inputs)

    def _check(
        self, gm: torch.fx.GraphModule, compiled: object, ends: tuple[int, int], where: str
    ) -> None:
        # ``graph.forward`` is bound to the graph that is looked at.
        returned = getattr(compiled, "__self__", compiled)
        # The compiler may have changed the graph that it was given, or returned another.
        for graph in (gm, returned):
            if isinstance(graph, torch.fx.GraphModule):
                _lint(graph, where)
        if isinstance(returned, torch.fx.GraphModule) and _ends(returned) != ends:
            change = f"(inputs, outputs) were {ends}, and are {_ends(returned)} now"
            raise CompilerError(
                f"{where}, changed the inputs or outputs of the graph: {change}; leave both "
                "unchanged"
            )

    def warn_of_unmarked(self) -> None:
        if self._compiler is regional_inductor and not self._marked:
            warnings.warn(
                "regional_inductor compiled nothing: no operation is annotated, so all of it runs "
                "in eager mode. Put the code to compile under `with "
                f'torch.fx.traceback.annotate({{"{KEY}": "name"}})`.',
                PrecompileWarning,
                stacklevel=4,
            )


def _boxed(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function in AOTAutograd's calling convention, one list of arguments that the callee
    may empty; AOTAutograd warns of any other.
    """
    from fx_explorer.capture.torch_compat.private_names import make_boxed_func

    if getattr(compiled, "_boxed_call", False):
        return compiled
    boxed: Callable[..., Any] = make_boxed_func(compiled)
    return boxed


def _lint(gm: torch.fx.GraphModule, where: str) -> None:
    try:
        gm.graph.lint()
    except Exception as error:
        raise CompilerError(
            f"{where}, left a broken graph: {error}; call gm.graph.lint() in it to find the place"
        ) from error


def _ends(gm: torch.fx.GraphModule) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a graph."""
    inputs = sum(node.op == "placeholder" for node in gm.graph.nodes)
    outputs = next((node.args[0] for node in reversed(gm.graph.nodes) if node.op == "output"), ())
    if isinstance(outputs, (list, tuple)):
        return inputs, len(outputs)
    return inputs, 1


def copied(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Copy a graph: the same nodes and metadata, with placeholders for inputs. ``copy.deepcopy``
    would copy Dynamo's bytecode, and fails.
    """
    graph = torch.fx.Graph(tracer_cls=gm.graph._tracer_cls)
    output = graph.graph_copy(gm.graph, {}, return_output_node=True)
    if output is not None:
        value, original = output
        graph.output(value).meta = copy.copy(original.meta)
    copied = torch.fx.GraphModule(gm, graph)
    copied.meta = {key: value for key, value in gm.meta.items() if key != "precompile"}
    return copied


def captured_or_broken(
    model: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    dynamic: bool | None,
) -> Any:
    """Return torch's ``CaptureOutput``, or the exception of the first graph break."""
    from fx_explorer.capture.torch_compat.private_names import (
        set_enable_dynamic,
        torch_function_mode_stack_state_mgr,
    )

    _check_call(model, args, kwargs)
    if dynamic is None:
        sizes = contextlib.nullcontext()
    else:
        sizes = set_enable_dynamic(dynamic)
    try:
        with measured("fullgraph_capture"), torch_function_mode_stack_state_mgr, sizes:
            return convert_frame.fullgraph_capture(model, args, kwargs)
    except (Unsupported, UncapturedHigherOrderOpError) as error:
        return error


@contextlib.contextmanager
def measured(phase: str) -> Iterator[None]:
    """Run torch's own clock for ``phase`` inside the block; its phases do not run without one."""
    with get_metrics_context(), dynamo_timed(phase):
        yield


def _check_call(
    model: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    try:
        _get_frame(model, args, kwargs)
    except TypeError as error:
        raise PrecompileError(f"the model cannot be called with these inputs: {error}") from None
