"""``Precompile`` has the phases of torch.compile as functions: Dynamo, then AOTAutograd with a
compiler, then save.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.dynamo import ahead_of_time
from fx_explorer.capture.recording.boundary import LoweringRequest
from fx_explorer.capture.torch_compat.private_names import functorch_config, get_traced_fn
from fx_explorer.capture.torch_compat.trace_calls import ARTIFACT, TraceCall, observed_trace_calls
from fx_explorer.precompile import phases, saving
from fx_explorer.precompile.compiled_function import Captured, CompiledFunction, Guards
from fx_explorer.precompile.errors import GraphBreakError, PrecompileError, PrecompileWarning
from fx_explorer.precompile.phases import captured_or_broken
from fx_explorer.precompile.states import without_inference_tensors
from fx_explorer.torch_texts.reports import BreakReport, parse_break


class Precompile:
    """Precompile compiles a model ahead of time, phase by phase, so that each phase's result can be
    looked at or changed.

    >>> import torch
    >>> from fx_explorer import Precompile
    >>> model = torch.nn.Linear(4, 2)
    >>> gm, bytecode, guards, example_inputs = Precompile.dynamo(model, torch.ones(3, 4))
    >>> compiled_fn, guards = Precompile.aot_autograd(
    ...     gm, guards, compiler=lambda graph, inputs: graph.forward
    ... )
    >>> torch.equal(compiled_fn(example_inputs), model(*example_inputs))
    True
    >>> compiled_fn(example_inputs).sum().backward()
    >>> model.bias.grad
    tensor([3., 3.])

    Without ``compiler=`` Inductor compiles. Nothing is ever compiled behind your back: other inputs
    than the guards allow are an error.
    """

    @staticmethod
    def dynamo(
        model: Callable[..., Any],
        *example_inputs: object,
        kwargs: dict[str, object] | None = None,
        dynamic: bool | None = None,
    ) -> tuple[torch.fx.GraphModule, types.CodeType, Guards, tuple[object, ...]]:
        """Capture ``model`` as one graph, by tracing it with ``example_inputs``. Nothing is
        computed.

        Args:
            model: an ``nn.Module``, a function or a bound method. A compiled one stands for what it
                was made from.
            example_inputs: its positional inputs.
            kwargs: its keyword inputs.
            dynamic: True makes every size symbolic, False none, None those marked with
                ``torch._dynamo.mark_dynamic``.

        Returns:
            ``(gm, bytecode, guards, example_inputs)``:
            the ``GraphModule``, called with the inputs of the model, gives what the model gives;
            annotations made with ``torch.fx.traceback.annotate`` are in ``meta["custom"]`` of its
            nodes, and its graph may be edited;
            the code object that Dynamo made to call the graph (for ``dis.dis``);
            the ``Guards``, which print, check and explain;
            the positional inputs as a tuple, as ``compiled_fn`` takes them.

        Raises:
            GraphBreakError: the model is not one graph. To list all breaks, a deep copy of the
                model is **run** with copies of the inputs, so its side effects outside of the model
                happen (once more), and Dynamo's caches are emptied.
            PrecompileError: there is nothing to capture.
            Exception: what the model itself raises for these inputs.

        >>> import torch
        >>> def model(x, scale):
        ...     return x * scale
        >>> gm, bytecode, guards, example_inputs = Precompile.dynamo(
        ...     model, torch.ones(2), kwargs={"scale": 3}
        ... )
        >>> [node.name for node in gm.graph.nodes if node.op == "call_function"]
        ['mul']
        >>> gm(torch.ones(2), 3)
        tensor([3., 3.])
        """
        model = _uncompiled(model)
        keywords = dict(kwargs or {})
        is_grad_enabled = torch.is_grad_enabled()
        args, keywords = without_inference_tensors((example_inputs, keywords))
        # To leave inference mode turns gradients on: they stay as the caller has them.
        with torch.inference_mode(False), torch.set_grad_enabled(is_grad_enabled):
            output = _capture(model, args, keywords, dynamic)
            captured = Captured(model, args, keywords, output, is_grad_enabled, dynamic)
            with captured.compiling("build_guards"):
                guards = captured.guards()
            gm = _callable_graph(captured)
        gm.meta["precompile"] = captured
        return gm, output.graph_capture_output.bytecode, guards, example_inputs

    @staticmethod
    def aot_autograd(
        gm: torch.fx.GraphModule, guards: Guards, compiler: phases.Compiler | None = None
    ) -> tuple[CompiledFunction, Guards]:
        """Trace forward and backward of a captured graph and compile both, now.

        Args:
            gm: the graph of ``Precompile.dynamo``, edited or not. It is copied, so it can be
                compiled again, otherwise.
            guards: the guards that came with it.
            compiler: None for Inductor; ``torch.fx.passes.regional_inductor.regional_inductor`` to
                compile only what is annotated; or any callable that takes a graph of ATen
                operations and its inputs, and returns a callable that takes those inputs. It is
                called for the forward graph and for the backward graph.

        Returns:
            ``(compiled_fn, guards)``: ``compiled_fn(example_inputs)`` gives what the model gives,
            with gradients to the parameters of the model; the guards are those of Dynamo and what
            compiling added, such as bounds on sizes.

        Raises:
            PrecompileError: ``gm`` or ``guards`` are not from ``Precompile.dynamo``, or not of one
                capture; or a number that ``dynamic=True`` has made symbolic has to be a constant.
            CompilerError: ``compiler`` raised, returned something that cannot be called, or left a
                graph that is broken.

        Warns:
            PrecompileWarning: ``regional_inductor`` found nothing annotated, so nothing was
                compiled.

        For ``regional_inductor``, regions with different names, or different ``inductor_configs``,
        stay regions of their own, also where torch would merge them because they touch.

        >>> import torch
        >>> gm, _, guards, example_inputs = Precompile.dynamo(lambda x: x * 2 + 1, torch.ones(3))
        >>> def printing(graph, inputs):
        ...     print([node.name for node in graph.graph.nodes])
        ...     return graph.forward
        >>> compiled_fn, guards = Precompile.aot_autograd(gm, guards, compiler=printing)
        ['arg0_1', 'mul', 'add', 'output']
        >>> compiled_fn(example_inputs)
        tensor([3., 3., 3.])
        """
        captured = _captured(gm, guards)
        graph = phases.copied(gm)
        # Two copies: to lower a graph changes it, and ``save`` lowers it once more.
        lowering = LoweringRequest(
            functools.partial(phases.lower, compiler),
            phases.copied(graph),
            captured.inputs,
            compiler,
        )
        with captured.compiling("backend_compile", phases.name_of(compiler), lowering):
            # Else the backward would be compiled when it first runs, and what fails there be
            # reported only then.
            with functorch_config.patch(force_non_lazy_backward_lowering=True):
                compiled = lowering.compiler(lowering.module, lowering.inputs)
            ahead_of_time.record_guards_again()
            rebuilt = captured.guards()
            recorded = ahead_of_time.recorded()
        return CompiledFunction(
            captured, graph, compiler, captured.bound(compiled), rebuilt, recorded
        ), rebuilt

    @staticmethod
    def save(compiled_fn: CompiledFunction, path: str | Path) -> Path:
        """Write ``compiled_fn`` to a file that another process can load without compiling.

        torch can serialise what is made for it: the graph is lowered once more (kernels that were
        built are used again). Guards on the identity of objects and on globals cannot be saved, and
        are left out, as in torch's own AOT compile.

        Raises:
            SaveError: the compiler is not Inductor or ``regional_inductor``, torch cannot serialise
                this model, or is too old.

        >>> import torch
        >>> gm, _, guards, _ = Precompile.dynamo(lambda x: x * 2, torch.ones(3))
        >>> compiled_fn, _ = Precompile.aot_autograd(
        ...     gm, guards, compiler=lambda graph, inputs: graph.forward
        ... )
        >>> Precompile.save(compiled_fn, "doubled.pt2")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        fx_explorer.precompile.errors.SaveError: torch cannot save what this compiler returned
        """
        if not isinstance(compiled_fn, CompiledFunction):
            raise PrecompileError(
                f"save takes the compiled_fn of Precompile.aot_autograd, not {compiled_fn!r:.80}"
            )
        return saving.save(compiled_fn, Path(path))

    @staticmethod
    def load(path: str | Path, model: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Load a compiled function from a file of ``Precompile.save``. Nothing is compiled.

        It is called as ``compiled_fn(example_inputs)``; keyword inputs must be given.

        Args:
            path: the file. It is a pickle: **loading can run any code that its author put in**, so
                load only what you trust as much as a program. This function does nothing with it
                but hand it to torch.
            model: the module that was saved (the weights are its own, not in the file); for a
                function, itself, when it uses globals, else nothing.

        Raises:
            SaveError: the file is not of ``Precompile.save``, is for another torch or machine, or
                needs its model.
            GuardError: at a call, with inputs that the function was not compiled for.
        """
        if model is not None:
            model = _uncompiled(model)
        return saving.load(Path(path), model)


def _uncompiled(model: Callable[..., Any]) -> Callable[..., Any]:
    """Return the model that torch.compile was given, from the object it returned."""
    model = (
        getattr(model, "_orig_mod", None)
        or getattr(model, "_torchdynamo_orig_callable", None)
        or model
    )
    try:
        get_traced_fn(model)
    except (RuntimeError, AttributeError):
        raise PrecompileError(
            f"cannot capture {model!r:.80}: give an nn.Module, a Python function or a bound method"
        ) from None
    return model


def _capture(
    model: Callable[..., Any],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    dynamic: bool | None,
) -> Any:
    output = captured_or_broken(model, args, kwargs, dynamic)
    if isinstance(
        output, Exception
    ):  # the other breaks are looked for outside of any except: torch would repeat this one in each
        raise graph_break_error(model, args, kwargs, output) from output
    if output.backend_input is None:
        raise PrecompileError(
            "Dynamo captured no operation on a tensor: there is nothing to compile for these inputs"
        )
    return output


def _callable_graph(captured: Captured) -> torch.fx.GraphModule:
    """Return Dynamo's graph, taking the inputs of the model and giving its outputs."""
    from fx_explorer.capture.torch_compat.private_names import create_fx_graph_from_captured_output

    try:
        return create_fx_graph_from_captured_output(
            captured.output, captured.model, captured.args, captured.kwargs
        )
    except AssertionError as error:
        warnings.warn(
            "gm takes the graph's own inputs (parameters, buffers, inputs), not the model's: "
            f"{error}. compiled_fn is not affected.",
            PrecompileWarning,
            stacklevel=3,
        )
        graph: torch.fx.GraphModule = captured.output.backend_input.graph_module
        return graph


def _captured(gm: torch.fx.GraphModule, guards: Guards) -> Captured:
    captured = getattr(gm, "meta", {}).get("precompile")
    if not isinstance(captured, Captured):
        raise PrecompileError(
            "gm is not a graph of Precompile.dynamo: pass the one it returned (a copy has no "
            "record of its origin)"
        )
    if not isinstance(guards, Guards) or not guards.is_of(captured.model):
        raise PrecompileError(
            "guards do not belong to this capture: pass those that Precompile.dynamo returned "
            "with gm"
        )
    return captured


# All graph breaks of a model, not only the first.

_RAN = (
    "They were found by running a deep copy of the model on copies of the inputs, so output that "
    "the model prints appears twice. A break on a path that these inputs do not take is not "
    "listed."
)


def graph_break_error(
    model: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    first: Exception,
) -> GraphBreakError:
    """Return the error that lists every break. It executes the user's code, on deep copies, and
    empties Dynamo's caches.

    A full-graph capture stops at the first break. The others are found by a second, tolerant pass
    that runs the model: torch's ``dynamo_graph_break_reason`` records
    (torch/_dynamo/symbolic_convert.py, ``log_graph_break``) tell each of them, data-dependent
    branches included, which ``torch._dynamo.explain`` leaves out.
    """
    reports: list[str] = []
    note = _RAN
    try:
        model, args, kwargs = copy.deepcopy((model, args, kwargs))
    except Exception as error:  # noqa: BLE001 anything may come out of the user's __deepcopy__
        note = (
            "Only the first is listed: the model cannot be copied for the run that finds the "
            f"others ({_in_a_line(error)})."
        )
    else:
        try:
            with _break_reports(reports):
                _run(model, args, kwargs)
        # The user's own program raised; the message says so.
        except Exception as error:  # noqa: BLE001
            note = f"{_RAN} There may be more: that run ended with {_in_a_line(error)}."
    return GraphBreakError(_distinct(reports) or (parse_break(str(first)),), note)


def _run(model: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    devices = range(torch.cuda.device_count())
    torch.compiler.reset()  # a frame that Dynamo has skipped before would not be looked at again
    try:
        with torch.random.fork_rng(devices=devices):
            torch.compile(model, backend="eager")(*args, **kwargs)
    finally:
        torch.compiler.reset()


@contextlib.contextmanager
def _break_reports(reports: list[str]) -> Iterator[None]:
    def take_call(call: TraceCall) -> None:
        if call.name == ARTIFACT and call.kind == f"{ARTIFACT}:dynamo_graph_break_reason":
            reports.append(call.payload() or "")

    with observed_trace_calls(take_call):
        yield


def _distinct(reports: list[str]) -> tuple[BreakReport, ...]:
    """Return each place and reason once: torch reports a break again when it gives up on the
    function around it.
    """
    breaks: dict[tuple[str, int, str], BreakReport] = {}
    causes: set[str] = set()
    for report in map(parse_break, reports):
        cause = report.registry_id or report.reason
        if not (report.is_given_up and cause in causes):
            hints = tuple(dict.fromkeys(report.hints))
            breaks.setdefault((report.file, report.line, cause), replace(report, hints=hints))
        causes.add(cause)
    return tuple(breaks.values())


def _in_a_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
