"""This module records how Inductor loops over the elements of a C++ kernel, and why: whether its
loops are vectorized and run in several threads.

That is decided in ``TilingSelect.select_tiling`` and ``CppKernel.decide_parallel_depth``
(torch/_inductor/codegen/cpp.py).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sympy

from fx_explorer.capture.inductor.decisions import Decision, add, hint
from fx_explorer.capture.inductor.kernel_text import buffers
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import cpp_codegen, inductor_config


@dataclass
class _Loops:
    """What was decided about the loops of one C++ kernel."""

    dtypes: list[str] = field(default_factory=list)
    """Types in the loop that Inductor does not vectorize."""
    factor: int = 0
    indices: list[int] | None = None
    """The loops that are vectorized; None where that was not asked."""
    candidate: int | None = None
    """The loop that could be."""
    statistics: Any = None
    size: int = -1
    """Elements of the vectorized loop, and those of its tail."""
    tail: int = -1
    has_vector_tail: bool = False
    depth: int = 0
    threads: int = 0
    work: int = -1
    loops: int = 0
    """Number of loops that could run in several threads."""


_LOOPS = "fx_explorer_loops"
"""Attribute of a CppKernelProxy."""


class _Writing(threading.local):
    loops: _Loops | None = None


_writing = _Writing()


@contextlib.contextmanager
def cpp_loop_hook(recording: Recording) -> Iterator[None]:
    """Note why C++ loops are vectorized and parallel or not, for as long as the block lasts."""
    proxy, fused = cpp_codegen.CppKernelProxy, cpp_codegen.OuterLoopFusedKernel
    select = cpp_codegen.TilingSelect
    tiling = functools.partial(_tiling, recording)
    depth = functools.partial(_depth, recording)
    finalize = functools.partial(_finalize, recording)
    with (
        patched(proxy, "codegen_functions", functools.partial(_functions, recording)),
        patched(cpp_codegen, "_get_dtype_from_loopbodies", functools.partial(_dtypes, recording)),
        patched(select, "_select_tiling_indices", functools.partial(_indices, recording)),
        patched(select, "select_tiling", tiling),
        patched(cpp_codegen.CppKernel, "decide_parallel_depth", depth),
        patched(fused, "decide_parallel_depth", depth),
        patched(cpp_codegen.KernelGroup, "finalize_kernel", finalize),
    ):
        yield


def _functions(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what is decided while the loops of a kernel are written."""

    @functools.wraps(original)
    def codegen_functions(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        loops = _Loops()
        outer, _writing.loops = _writing.loops, loops
        try:
            result = original(kernel, *args, **kwargs)
        finally:
            _writing.loops = outer
        with recording.noting("the loops of a kernel", "schedule"):
            _measure(loops, kernel)
            kernel.__dict__[_LOOPS] = loops
        return result

    return codegen_functions


def _measure(loops: _Loops, kernel: Any) -> None:
    """Keep the sizes of the vectorized loop. Kernels that share an outer loop lose theirs later."""
    if loops.indices:
        loop = kernel.loop_nest.loops[loops.indices[0]]
        loops.size = hint(_in_graph_symbols(kernel, loop.size))
        loops.tail = hint(_in_graph_symbols(kernel, loop.size - loop.tiled_size))
        loops.has_vector_tail = isinstance(kernel.kernels[1], cpp_codegen.CppVecKernel)
    elif loops.candidate is not None:
        loops.size = hint(kernel.call_ranges[loops.candidate])


def _in_graph_symbols(kernel: Any, size: Any) -> Any:
    """Return a size of a loop with the symbols of the graph: a kernel calls its arguments for them
    ``ks0`` (``KernelArgs.sizevars``), of which Inductor knows no number.
    """
    size = sympy.sympify(size)
    outer = {inner: outer for outer, inner in kernel.args.sizevars.items()}
    known = {symbol: outer[symbol.name] for symbol in size.free_symbols if symbol.name in outer}
    return size.subs(known)


def _dtypes(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the types of a loop that are not vectorized."""

    @functools.wraps(original)
    def get_dtype_from_loopbodies(*args: Any, **kwargs: Any) -> Any:
        dtypes = original(*args, **kwargs)
        loops = _writing.loops
        if loops is not None:
            with recording.noting("types that are not vectorized", "schedule"):
                others = set(dtypes) - set(cpp_codegen.VECTORIZABLE_DTYPES)
                loops.dtypes = sorted(str(dtype).removeprefix("torch.") for dtype in others)
        return dtypes

    return get_dtype_from_loopbodies


def _indices(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the loop that could be vectorized."""

    @functools.wraps(original)
    def select_tiling_indices(*args: Any, **kwargs: Any) -> Any:
        indices = original(*args, **kwargs)
        loops = _writing.loops
        if loops is not None and indices:
            with recording.noting("the loop that could be vectorized", "schedule"):
                _, _, _, factor = args
                loops.candidate, loops.factor = indices[0], int(factor)
        return indices

    return select_tiling_indices


def _tiling(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep which loops are vectorized."""

    @functools.wraps(original)
    def select_tiling(*args: Any, **kwargs: Any) -> Any:
        answer = original(*args, **kwargs)
        loops = _writing.loops
        if loops is not None:
            with recording.noting("whether a loop is vectorized", "schedule"):
                factors, loops.indices, loops.statistics = answer
                if factors:
                    loops.factor = int(factors[0])
        return answer

    return select_tiling


def _depth(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep how many loops run in several threads."""

    @functools.wraps(original)
    def decide_parallel_depth(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(kernel, *args, **kwargs)
        with recording.noting("whether a loop is parallel", "schedule"):
            most, threads = args
            loops: _Loops = kernel.__dict__.setdefault(_LOOPS, _Loops())
            loops.depth, loops.threads = int(answer.parallel_depth), int(threads)
            loops.loops = int(most.parallel_depth)
            if kernel.call_ranges:
                loops.work = hint(kernel.size_hint())
        return answer

    return decide_parallel_depth


def _finalize(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Add what was decided about the loops of a kernel that was just written."""

    @functools.wraps(original)
    def finalize_kernel(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        with recording.noting("the loops of a kernel", "schedule"):
            _, kernel, nodes = args
            for decision in _cpp_decisions(kernel, nodes):
                add(decision)
        return result

    return finalize_kernel


def _cpp_decisions(kernel: Any, nodes: Iterable[Any]) -> Iterator[Decision]:
    written = frozenset(buffers(nodes))
    nest = kernel.loop_nest
    outer = nest.kernel if nest is not None else None
    inner = [part.get_kernel() for part in getattr(outer, "inner", ())]
    for part in inner or [kernel]:
        loops = part.__dict__.get(_LOOPS)
        if loops is not None:
            yield _vectors(part, loops, written)
    whole = outer if inner else kernel
    loops = vars(whole).get(_LOOPS)
    if loops is not None and loops.threads:
        if inner:
            loops.work = max(part.__dict__[_LOOPS].work for part in inner)
        yield _threads(loops, written)


def _vectors(kernel: Any, loops: _Loops, written: frozenset[str]) -> Decision:
    """Return whether a loop is vectorized, and what of it is not."""
    texts: dict[str, str] = {}
    numbers = {"lanes": loops.factor} if loops.factor else {}
    if not kernel.picked_vec_isa:
        return Decision("vectors", "no vector instructions", buffers=written)
    if loops.indices is None:
        return Decision("vectors", "no loop", buffers=written)
    texts["instructions"] = str(kernel.picked_vec_isa)
    operations = dict(loops.statistics.op_counter)
    strided = dict(loops.statistics.non_contig_indexing_op_counter)
    numbers["operations"] = sum(operations.values())
    numbers["not_contiguous"] = sum(strided.values())
    if not loops.indices:
        outcome = _why_no_vectors(loops)
        texts["dtypes"] = ", ".join(loops.dtypes)
        if loops.candidate is not None:
            numbers["loop"] = loops.size
        return Decision("vectors", outcome, buffers=written, numbers=numbers, texts=texts)
    numbers["loop"], numbers["tail"] = loops.size, loops.tail
    texts["tail"] = "vector" if loops.has_vector_tail else "one by one"
    alone = [name for name in operations if _is_computed_one_by_one(name)]
    texts["one_by_one"] = ", ".join(alone)
    outcome = "vectorized"
    if alone:
        outcome = "one by one"
    elif len(loops.indices) > 1:
        outcome = "vectorized in two dimensions"
    elif numbers["tail"]:
        outcome = "vectorized with a tail"
    return Decision("vectors", outcome, buffers=written, numbers=numbers, texts=texts)


def _why_no_vectors(loops: _Loops) -> str:
    if loops.dtypes:
        return "dtype"
    statistics = loops.statistics
    operations = sum(statistics.op_counter.values())
    strided = sum(statistics.non_contig_indexing_op_counter.values())
    if strided and strided >= statistics.OVERHEAD_RATIO_THRESHOLD * operations:
        return "not contiguous"
    return "short loop" if operations else "no loop"


def _is_computed_one_by_one(operation: str) -> bool:
    """Return whether C++ vectors have no such operation, so that a loop goes over the elements of
    one (``CppVecOverrides._scalarize``).
    """
    function = getattr(cpp_codegen.CppVecOverrides, operation, None)
    return "_scalarize" in getattr(function, "__qualname__", "")


def _threads(loops: _Loops, written: frozenset[str]) -> Decision:
    numbers = {
        "threads": loops.threads,
        "depth": loops.depth,
        "elements": loops.work,
        "least": int(inductor_config.cpp.min_chunk_size),
    }
    if loops.depth:
        outcome = "parallel"
    elif not loops.loops:
        outcome = "no loop"
    elif loops.threads == 1:
        outcome = "one thread"
    else:
        outcome = "too small"
    return Decision("threads", outcome, buffers=written, numbers=numbers)
