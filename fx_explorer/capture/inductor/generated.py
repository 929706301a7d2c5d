"""This module records which kernels Inductor generated, which FX nodes each call of them computes,
and where in the output code it stands.

Seen while Inductor writes its code, never guessed from text: a kernel's nodes are the origins of
the scheduler nodes it was generated for (torch/_inductor/scheduler.py), and the line of a call is
found with Inductor's own ``LineContext`` marks (torch/_inductor/utils.py), which take no part in
the text. Generated code does not change by one byte.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fx_explorer.capture.inductor import lines_by_node as lines
from fx_explorer.capture.inductor.autotuner_choices import write_choices
from fx_explorer.capture.inductor.kernel_calls import LoweringInProgress
from fx_explorer.capture.inductor.kernel_text import CodeMark, marked_lines
from fx_explorer.capture.inductor.lowered_kernels import (
    GeneratedCall,
    GeneratedKernel,
    LoweredKernels,
)
from fx_explorer.capture.torch_compat.patching import patched

__all__ = [
    "GeneratedCall",
    "GeneratedKernel",
    "KernelRecording",
    "LoweredKernels",
    "kernel_recording",
]

OnKernels = Callable[[LoweredKernels], None]


class KernelRecording:
    """The graphs that are being lowered, per thread. ``unavailable``: view → why this torch release
    cannot fill it.
    """

    def __init__(self, on_kernels: OnKernels, *, notes_library_calls: bool) -> None:
        self.unavailable: dict[str, str] = {}
        self._on_kernels = on_kernels
        self._notes_library_calls = notes_library_calls
        self._local = threading.local()

    @property
    def _open(self) -> list[LoweringInProgress]:
        """Return the lowerings whose code is being generated in this thread, outermost first."""
        if not hasattr(self._local, "open"):
            self._local.open = []
        return self._local.open

    @property
    def current(self) -> LoweringInProgress | None:
        return self._open[-1] if self._open else None

    @contextlib.contextmanager
    def generating(self, lowering: Any) -> Iterator[LoweringInProgress]:
        """Note that code of ``lowering`` is generated inside the block. A whole graph is delivered
        after it, with its nested graphs.
        """
        outer = self.current if hasattr(lowering, "parent") else None
        progress = LoweringInProgress(lowering, outer, self._notes_library_calls)
        self._open.append(progress)
        try:
            yield progress
        except BaseException as error:
            progress.error = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise
        finally:
            self._open.pop()
            if outer is None:
                self._finished(progress)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Mark that the module is written inside the block. Its text is complete only afterwards
        (tuning code may be put first).
        """
        outer = getattr(self._local, "waiting", None)
        waiting: list[LoweringInProgress] = []
        self._local.waiting = waiting
        try:
            yield
        finally:
            self._local.waiting = outer
            for progress in waiting:
                self._deliver(progress)

    @contextlib.contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Turn an error of ours into a recorded problem while ``what`` is recorded, so that it does
        not become an error of the compile.
        """
        try:
            yield
        # It is shown in the session, with the graph it belongs to.
        except Exception as error:  # noqa: BLE001
            if self.current:
                self.current.problems.append(
                    f"could not note {what}: {type(error).__name__}: {error}"
                )

    def _finished(self, progress: LoweringInProgress) -> None:
        waiting = getattr(self._local, "waiting", None)
        if waiting is None:
            self._deliver(progress)
        else:
            # The C++ wrapper may generate its code twice (torch/_inductor/graph.py,
            # codegen_with_cpp_wrapper): the last counts.
            waiting[:] = [other for other in waiting if other.lowering is not progress.lowering]
            waiting.append(progress)

    def _deliver(self, progress: LoweringInProgress) -> None:
        for lowering_in_progress in progress.whole():
            self._on_kernels(lowering_in_progress.lowered())


@contextlib.contextmanager
def kernel_recording(
    on_kernels: OnKernels, *, notes_library_calls: bool = False
) -> Iterator[KernelRecording]:
    """Call ``on_kernels`` for every graph for which Inductor generates code inside the block, once
    its code is complete.

    It is called in the compiling thread, first for the whole graph and then for each graph nested
    in it, also when code generation raises. What it raises goes into the compile: the caller guards
    its own. The yielded recording says in ``unavailable`` what this torch release does not let us
    see. With ``notes_library_calls``, library calls come with how they are made alone.
    """
    recording = KernelRecording(on_kernels, notes_library_calls=notes_library_calls)
    with contextlib.ExitStack() as stack:
        _install(recording, stack)
        recording.unavailable.update(stack.enter_context(lines.line_recording()))
        yield recording


def _install(recording: KernelRecording, stack: contextlib.ExitStack) -> None:
    """Hook into Inductor's code generation until the stack is closed. Each hook that this torch
    release lacks is noted in ``unavailable``.
    """
    try:
        from fx_explorer.capture.torch_compat.private_names import (
            BaseScheduling,
            GraphLowering,
            LineContext,
            PythonWrapperCodegen,
            Scheduler,
            SIMDScheduling,
            init_backend_registration,
        )
    except ImportError as error:
        recording.unavailable["kernels"] = f"this torch release lacks something ({error})"
        return
    init_backend_registration()  # imports every backend, so that their classes can be found below
    mark = CodeMark.factory(LineContext)

    def hook(
        owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]], view: str
    ) -> None:
        if hasattr(owner, name):
            stack.enter_context(patched(owner, name, make))
        else:
            recording.unavailable[view] = f"this torch release has no {owner.__name__}.{name}"

    hook(GraphLowering, "codegen", lambda original: _codegen(recording, original), "kernels")
    hook(
        GraphLowering,
        "codegen_subgraph",
        lambda original: _codegen(recording, original),
        "kernels of inlined subgraphs",
    )
    hook(
        GraphLowering,
        "compile_to_module",
        lambda original: _compile_to_module(recording, original),
        "output code",
    )
    hook(
        Scheduler,
        "codegen_extern_call",
        lambda original: _codegen_extern_call(recording, original, mark),
        "library calls",
    )
    hook(
        PythonWrapperCodegen,
        "generate_kernel_call",
        lambda original: _generate_kernel_call(recording, original, mark),
        "kernel calls",
    )
    hook(
        PythonWrapperCodegen,
        "define_user_defined_triton_kernel",
        lambda original: _define_users_kernel(recording, original),
        "lines of your own Triton kernels",
    )
    hook(
        PythonWrapperCodegen,
        "define_subgraph_launcher_fn",
        lambda original: _define_subgraph(original, mark),
        "call lines in subgraphs",
    )
    hook(
        SIMDScheduling,
        "codegen_template",
        lambda original: _codegen_template(recording, original),
        "choices of templates",
    )
    for scheduling in _subclasses(BaseScheduling):
        # Only where a class has its own: one that is inherited would note each kernel twice.
        if "define_kernel" in vars(scheduling):
            hook(
                scheduling,
                "define_kernel",
                lambda original: _define_kernel(recording, original),
                "kernels",
            )


def _subclasses(base: type[Any]) -> Iterator[type[Any]]:
    subclass: type[Any]
    for subclass in base.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _codegen(recording: KernelRecording, original: Callable[..., Any]) -> Callable[..., Any]:
    def codegen(lowering: Any, *args: Any, **kwargs: Any) -> Any:
        with recording.generating(lowering) as progress:
            progress.result = original(lowering, *args, **kwargs)
            if progress.outer is None:
                with recording.noting("the lines of calls"):
                    progress.place_calls()
            return progress.result

    return codegen


def _compile_to_module(
    recording: KernelRecording, original: Callable[..., Any]
) -> Callable[..., Any]:
    def compile_to_module(*args: Any, **kwargs: Any) -> Any:
        with recording.compiling():
            return original(*args, **kwargs)

    return compile_to_module


def _define_kernel(recording: KernelRecording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note a kernel when ``XScheduling.define_kernel(src_code, node_schedule, …) -> name`` is
    called: once per call of the kernel, also when the kernel exists.
    """

    def define_kernel(
        scheduling: Any, src_code: str, node_schedule: Iterable[Any], *args: Any, **kwargs: Any
    ) -> str:
        name: str = original(scheduling, src_code, node_schedule, *args, **kwargs)
        if recording.current:
            with recording.noting(f"kernel {name}"):
                code = args[0] if args else kwargs.get("kernel")
                recording.current.define(
                    name, node_schedule, lines.lines_of(src_code), src_code, code
                )
        return name

    return define_kernel


def _define_users_kernel(
    recording: KernelRecording, original: Callable[..., Any]
) -> Callable[..., Any]:
    """Note a kernel of the user's when ``define_user_defined_triton_kernel(kernel, …) -> (name,
    …)`` is called, before each call of the kernel.
    """

    def define_user_defined_triton_kernel(
        wrapper: Any, kernel: Any, *args: Any, **kwargs: Any
    ) -> Any:
        result = original(wrapper, kernel, *args, **kwargs)
        if recording.current:
            with recording.noting("a kernel of your own"):
                recording.current.define_users_kernel(result[0], kernel)
        return result

    return define_user_defined_triton_kernel


def _codegen_template(
    recording: KernelRecording, original: Callable[..., Any]
) -> Callable[..., Any]:
    def codegen_template(scheduling: Any, *nodes: Any, **options: Any) -> Any:
        # For its text alone it is asked by Inductor, which times a fusion so, and by us below.
        if recording.current and not options.get("only_gen_src_code"):
            with recording.noting("the choices of a template"):
                write_choices(functools.partial(original, scheduling), *nodes)
        return original(scheduling, *nodes, **options)

    return codegen_template


def _generate_kernel_call(
    recording: KernelRecording, original: Callable[..., Any], mark: Any
) -> Callable[..., Any]:
    def generate_kernel_call(wrapper: Any, kernel_name: str, *args: Any, **kwargs: Any) -> Any:
        if recording.current is None:
            return original(wrapper, kernel_name, *args, **kwargs)
        first = len(wrapper.lines)
        result = original(wrapper, kernel_name, *args, **kwargs)
        with recording.noting(f"the call of {kernel_name}"):
            call = recording.current.call(kernel_name)
            wrapper.lines.insert(first, mark(call, is_end=False))
            wrapper.lines.append(mark(call, is_end=True))
        return result

    return generate_kernel_call


def _codegen_extern_call(
    recording: KernelRecording, original: Callable[..., Any], mark: Any
) -> Callable[..., Any]:
    """Note a library call when Inductor writes it, unless it turns out to consist of kernel
    calls.
    """

    def codegen_extern_call(scheduler: Any, scheduler_node: Any) -> Any:
        progress = recording.current
        if progress is None:
            return original(scheduler, scheduler_node)
        from fx_explorer.capture.torch_compat.private_names import V

        wrapper_lines = V.graph.wrapper_code.lines
        first = len(wrapper_lines)
        with progress.extern(scheduler_node) as calls:
            result = original(scheduler, scheduler_node)
        if not calls:
            with recording.noting("a library call"):
                progress.extern_call(scheduler_node, wrapper_lines, first, mark)
        return result

    return codegen_extern_call


def _define_subgraph(original: Callable[..., Any], mark: Any) -> Callable[..., Any]:
    """Put a mark in front of a nested function's text, which is put into the outer code. The mark
    carries the lines of its calls along.
    """

    def define_subgraph_launcher_fn(wrapper: Any, name: str, subgraph_code: Any) -> Any:
        if inner := marked_lines(getattr(subgraph_code, "line_map", ())):
            wrapper.subgraph_definitions.writeline(mark(None, is_end=False, inner=tuple(inner)))
        return original(wrapper, name, subgraph_code)

    return define_subgraph_launcher_fn
