"""This module sums up the memory of a step in sentences: the peak, what makes it up, and what is
not counted. It also adds the state of an optimizer, which exists from the first step on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.words import counted, listed, share, size
from fx_explorer.instruments.memory.graph_memory import WrapperKernelCall
from fx_explorer.instruments.memory.session_memory import SessionMemory
from fx_explorer.instruments.memory.step import HeldStorage, MemoryKind, StepMemory, StepMoment
from fx_explorer.instruments.memory.usage import Usage
from fx_explorer.session.file_names import in_file

TENSORS: Mapping[str, int] = {
    "sgd": 0,
    "sgd-momentum": 1,
    "adagrad": 1,
    "rmsprop": 1,
    "adadelta": 2,
    "adam": 2,
    "adamw": 2,
    "adamax": 2,
    "nadam": 2,
    "radam": 2,
    "adam-amsgrad": 3,
}
"""Optimizer of ``torch.optim`` → tensors as large as a parameter that its ``state`` has for each
trained one (the functions named ``_init_group`` in torch/optim). Counters of steps, 4 bytes each,
are left out.
"""


def trained(step: StepMemory) -> list[HeldStorage]:
    """Return the parameters that receive a gradient in the step."""
    names = {held.name for held in step.held if held.kind == "gradient"}
    return [held for held in step.held if held.kind == "parameter" and held.name in names]


def with_optimizer(step: StepMemory, name: str) -> StepMemory:
    """Return the step with the optimizer's state. Raises KeyError for a name that is not in
    ``TENSORS``.
    """
    kept = []
    for parameter in trained(step):
        tensor = replace(parameter, kind="optimizer", begin=0, end=step.end, node=None, kernel="")
        kept += [tensor] * TENSORS[name]
    if kept:
        return replace(step, held=(*step.held, *kept))
    return step


IN_WORDS: dict[MemoryKind, tuple[str, str]] = {
    "parameter": ("parameters", "parameters"),
    "buffer": ("buffers", "buffers of modules"),
    "input": ("inputs", "inputs"),
    "optimizer": ("optimizer", "the optimizer's state between steps"),
    "activation": ("saved", "activations that the forward saves for the backward"),
    "output": ("outputs", "outputs"),
    "tangent": ("loss grads", "gradients of outputs, the inputs of the backward"),
    "gradient": ("gradients", "gradients"),
    "temporary": ("temporary", "temporaries, needed only inside one graph"),
    "workspace": ("workspace", "temporary memory of a library call"),
}
"""Kind → its name in a table, and in a sentence."""

NOT_ASKED = "temporary memory of libraries (cuBLAS, cuDNN, oneDNN)"

KEPT = "workspaces that cuBLAS never frees, one for each thread"
"""Name of the memory that is not counted when the GPU was asked for the workspace of each library
call.
"""


def verdict(
    memory: SessionMemory,
    used: Usage,
    paths: dict[int, str],
    recomputed: str = "",
    optimizer: str = "",
    saved: str = "",
) -> list[str]:
    """Return the answer, one sentence each, the peak first. ``recomputed`` is a sentence on
    recomputed operations, ``optimizer`` the name of the optimizer whose state is counted, ``saved``
    a sentence on saved tensors, used where the peak is not known.
    """
    if not memory.is_known:
        return _not_predicted(memory, list(filter(None, [saved, recomputed])))
    parts = [
        _peak(used, paths),
        _parts_of_peak(used),
        *_saved(memory, used),
        *_unread(memory),
        *_assumptions(memory, used),
    ]
    return [
        *parts[:3],
        *filter(None, [recomputed]),
        *parts[3:],
        *_optimizer(used, optimizer),
        _not_counted(used, optimizer),
    ]


def _not_predicted(memory: SessionMemory, known: list[str]) -> list[str]:
    """Explain why the peak is not predicted, and what is known in spite of that."""
    backends = memory.without_code
    if backends:
        if len(backends) == 1:
            which = f"backend {backends[0]} writes"
        else:
            which = f"backends {listed(backends, len(backends))} write"
        none = (
            "The peak of a step cannot be predicted: predictions read the code that Inductor "
            f"writes, and {which} none. --measure measures it."
        )
        return [none, *(known or filter(None, [memory.nothing_saved]))]
    why = list(_unread(memory)) or ["Nothing was compiled, so there is no output code to read."]
    if not known:
        return ["The memory of a step is not known.", *why]
    return ["The peak of a step cannot be predicted.", *why, *known]


def _optimizer(used: Usage, optimizer: str) -> Iterator[str]:
    """Describe the memory that an optimizer adds, or would add."""
    parameters = [held for held in trained(used.step) if held.device == used.device]
    one_tensor_each = sum(max(0, parameter.size_bytes) for parameter in parameters)
    if not one_tensor_each:
        return
    if optimizer:
        if TENSORS[optimizer]:
            kept = counted(TENSORS[optimizer], "tensor")
        else:
            kept = "nothing"
        yield (
            f"The optimizer, {optimizer}, keeps {kept} for each trained parameter, from its "
            "first step on."
        )
    else:
        yield (
            "An optimizer's state adds to this from its first step on: "
            f"{size(2 * one_tensor_each)} for Adam, {size(one_tensor_each)} for SGD with "
            "momentum, none for SGD (--optimizer counts it)."
        )


def _not_counted(used: Usage, optimizer: str) -> str:
    was_asked = any(moment.call.workspace for moment in used.step.moments)
    workspaces = KEPT if was_asked else NOT_ASKED
    if optimizer:
        steps = "temporary memory of the optimizer's step"
    else:
        steps = "the optimizer"
    return f"Not counted: {workspaces}, Python's allocations outside of the graphs, and {steps}."


def _peak(used: Usage, paths: dict[int, str]) -> str:
    peak, moment = used.peak, used.moment(used.peak.at)
    is_training = used.step.backward_from < used.step.end
    what = "A training step" if is_training else "A call"
    if moment:
        where = f", {_when(used, peak.at, is_training)}{_at(moment, paths)}"
    else:
        where = ""
    return (
        f"{what} needs {size(peak.total_bytes)} at its peak{_up_to(used)}{where}; "
        f"{size(used.begin_bytes)} are in use before it."
    )


def _up_to(used: Usage) -> str:
    """Describe by how much the peak may be too low, where the workspaces of libraries are not
    known.
    """
    most, calls = used.most_with_workspaces()
    if most <= used.peak.total_bytes:
        return ""
    unknown = f"the temporary memory of {counted(calls, 'library call')} is not known"
    if used.device != "cpu":
        unknown += " without the GPU"
    return f" (up to {size(most)}: {unknown})"


def _when(used: Usage, at: int, is_training: bool) -> str:
    if is_training:
        if used.is_backward(at):
            return "in the backward"
        return "in the forward"
    return "in the computation"


def _at(moment: StepMoment | None, paths: dict[int, str]) -> str:
    node = moment.call.node if moment else None
    if node:
        return f" of {where(node, paths)}"
    if moment:
        return f" ({moment.call.name})"
    return ""


def where(node: model.Node | None, paths: dict[int, str]) -> str:
    """Return ``model.py:57 (blocks.3.mlp)``; empty where no line is known."""
    if node is None or node.file not in paths:
        return ""
    line = in_file(paths[node.file], node.line)
    return f"{line} ({node.module})" if node.module else line


def _parts_of_peak(used: Usage) -> str:
    peak = used.peak
    kinds = sorted(peak.by_kind, key=lambda kind: -peak.by_kind[kind])
    parts = [
        f"{share(peak.by_kind[kind], peak.total_bytes)} are {IN_WORDS[kind][1]}"
        for kind in kinds[:3]
    ]
    rest = sum(peak.by_kind[kind] for kind in kinds[3:])
    parts += [f"{share(rest, peak.total_bytes)} are other things"] if rest else []
    return f"Of the peak {listed(parts, len(parts))}."


def _saved(memory: SessionMemory, used: Usage) -> Iterator[str]:
    if memory.step.saved_bytes:
        calls, crossing = memory.step.calls, memory.step.crossing_bytes
        text = f"The forward computes and saves {size(memory.step.saved_bytes)} for the backward"
        if calls > memory.graphs:
            text += f", in {calls} calls of {counted(memory.graphs, 'graph')}"
        if crossing:
            text += (
                f"; {size(crossing)} of it are results of an earlier graph that a later one saves"
            )
        yield f"{text}."
    if memory.step.between_bytes:
        yield (
            f"Operators outside of the graphs save {size(memory.step.between_bytes)} more for "
            "their backward."
        )
    if used.elsewhere:
        others = (
            f"{size(bytes_)} on {device or 'an unknown device'}"
            for device, bytes_ in used.elsewhere.items()
        )
        yield f"This is the memory of {used.device}; other devices: {listed(others)}."


def _unread(memory: SessionMemory) -> Iterator[str]:
    for unread in memory.unread:
        yield f"The {unread.direction} of [{unread.compilation}] is not included: {unread.reason}."


def _unseen(calls: Sequence[WrapperKernelCall]) -> str:
    """Describe the library calls whose workspace the GPU could not measure, with the first
    reason.
    """
    first = calls[0]
    problem = first.workspace.problem if first.workspace else ""
    return (
        f"The workspace of {counted(len(calls), 'library call')} is not known "
        f"({first.name}: {problem})."
    )


def _assumptions(memory: SessionMemory, used: Usage) -> Iterator[str]:
    if used.unknown:
        verb = "is" if used.unknown == 1 else "are"
        yield f"{counted(used.unknown, 'storage')} of unknown size {verb} not counted."
    calls = [moment.call for moment in used.step.moments]
    unseen = [call for call in calls if call.workspace and call.workspace.problem]
    if unseen:
        yield _unseen(unseen)
    if memory.step.assumed:
        results = counted(memory.step.assumed, "result")
        yield (
            f"The element size of {results} of library calls is assumed to be that of the call's "
            "first argument."
        )
    if memory.left_out:
        yield (
            f"{counted(memory.left_out, 'compilation')} of the same functions for other inputs: "
            "only the last of each is shown."
        )
    if memory.has_breaks:
        yield _across_breaks(memory)


def _across_breaks(memory: SessionMemory) -> str:
    """Describe the assumptions about values that cross a graph break."""
    if not memory.is_watched:
        return (
            "Assumptions: each graph runs once in a step, and values that cross a graph break are "
            "freed after their last use by a graph. If your code keeps them, or runs a graph "
            "several times, the peak is higher. --measure measures it."
        )
    calls = memory.step.calls
    runs = counted(memory.graphs, "graph")
    if calls > memory.graphs:
        runs = f"{runs}, which your code called {calls} times in the recorded step"
    return (
        f"The step has {runs}. Values that cross a graph break count for as long as your code "
        "held them in the recorded step."
    )


def name_of(held_tensor: HeldStorage) -> str:
    """Return the user's name of a storage where it has one; else a description."""
    if held_tensor.kind == "gradient":
        if held_tensor.name:
            return f"gradient of {held_tensor.name}"
        return "gradient"
    if held_tensor.kind == "tangent":
        return "gradient of an output"
    if held_tensor.kind == "workspace":
        return f"workspace of {held_tensor.name.removesuffix('.default').rpartition('.')[2]}"
    return held_tensor.name


def frame_of(moment: StepMoment) -> str:
    """Return the compilation and direction of a kernel call: ``[0/0] forward``."""
    return f"[{moment.compilation}] {moment.direction}"
