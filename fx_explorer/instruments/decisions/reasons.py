"""This module says in a sentence what Inductor decided about a kernel, with its numbers, and what
would change it.

Outcomes are those of capture/inductor: lowering_decisions.py, layout_decisions.py,
gpu_loop_decisions.py and cpp_loop_decisions.py; of attention those of
capture/dynamo/attention_choices.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.model.rows.decisions import DecisionKind


@dataclass(frozen=True, slots=True)
class NamesInDecision:
    """The names in a decision, as the user knows them."""

    node: str = ""
    """The operation, as an operator: ``aten.mm``; empty where the whole kernel is meant."""
    about: str = ""
    """The value that is laid out: the name of an input, or the operation that makes it."""
    is_input: bool = False
    """Whether that value is an input of the graph."""
    kernel: str = ""
    """The kernel that the decision is about."""


@dataclass(frozen=True, slots=True)
class DecisionReason:
    """The reason for a property of a kernel."""

    kind: str
    """In two words, for a column: ``autotuning off``."""
    text: str
    change: str = ""
    """A sentence about what would change it; empty where nothing that the user has would."""


def reason_of(decision: model.KernelDecision, named: NamesInDecision) -> DecisionReason:
    text, change = _WORDS[decision.kind](decision, named)
    return DecisionReason(decision.outcome, text, change)


def is_worth_saying(decision: model.KernelDecision) -> bool:
    """Return whether a decision is not just the usual one of a small kernel."""
    return decision.outcome != "no loop"


Words = tuple[str, str]
"""A sentence, and what would change what it says."""


# Library calls.

_TIMED = (
    'mode="max-autotune", or torch._inductor.config.max_autotune_gemm = True, also times '
    "templates, not only the library call."
)

_ON_CPU = (
    "torch._inductor.config.max_autotune = True lets Inductor consider its C++ template if the "
    "weights are constants (torch._inductor.config.freezing = True, without gradients)."
)

_BATCHED_ON_CPU = (
    "torch._inductor.config.max_autotune = True lets Inductor consider its C++ template."
)

_AS_REAL = (
    "With real and imaginary parts in a real tensor (torch.view_as_real), Inductor can write a "
    "kernel."
)

_AS_TRITON = (
    "The compiler sees a Triton kernel of yours inside torch.library.triton_op, but not the code "
    "inside a custom operator."
)

_FLEX = (
    "torch.nn.attention.flex_attention is compiled to Inductor's own kernel, and the change of "
    "its scores is fused into it."
)

_BATCHED = "aten.bmm"
"""Its C++ template asks for no constant weights (``use_cpp_bmm_template``,
torch/_inductor/utils.py).
"""

_BUILT_IN = ("aten.", "prims.", "mkldnn.", "mkl.", "onednn.", "quantized.", "_c10d_functional.")


def _library_call(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    texts = decision.texts
    operator = named.node
    match decision.outcome:
        case "no lowering" if not operator.startswith(_BUILT_IN):
            return (
                f"{operator} is a custom operator: Inductor calls it unchanged and writes no code "
                "for it.",
                _AS_TRITON,
            )
        case "no lowering":
            change = _FLEX if "scaled_dot_product" in operator else _other_value(decision)
            return (
                f"Inductor has no lowering for {operator}{_for_options(decision)}: it calls "
                "PyTorch's own kernel.",
                change,
            )
        case "unsupported type":
            dtype = texts.get("dtype", "this type")
            change = _AS_REAL if dtype.startswith("complex") else ""
            return f"Inductor writes no code for {dtype}: it calls {operator}.", change
        case "asked for" if texts.get("options"):
            return f"{operator} is called unchanged{_for_options(decision)}.", _other_value(
                decision
            )
        case "asked for":
            return f"{operator} is marked to be called unchanged.", ""
        case "lowering gives up":
            return _gives_up(decision, operator), _other_value(decision)
        case "library only":
            sentence = f"Inductor's lowering of {operator} is a library call"
            if texts.get("holds"):
                return f"{sentence}: {listed(_alternatives(texts))}.", ""
            return f"{sentence}{_for_options(decision)}.", _other_value(decision)
    return _no_template(decision, operator)


def _alternatives(texts: Mapping[str, str]) -> list[str]:
    """Return the alternatives that hold of a condition of torch's (``holding_alternatives``,
    capture/inductor/deciding_options.py), in words where they are known
    (``use_scatter_fallback``, torch/_inductor/utils.py).
    """
    return [_alternative(text, texts) for text in texts["holds"].split("\n")]


def _alternative(text: str, texts: Mapping[str, str]) -> str:
    if text.startswith("reduction_type not in") and "reduction_type" in texts:
        return f'its reduction is "{texts["reduction_type"]}", not a sum'
    if "self_dtype in" in text and "self_dtype" in texts:
        return f"the tensor that it adds to is {texts['self_dtype']}"
    if "needs_fallback_due_to_atomic_add_limitations" in text and "src_dtype" in texts:
        return f"Inductor does not add {texts['src_dtype']} atomically on this GPU"
    if "fallback_scatter_reduce_sum" in text:
        return "torch._inductor.config.cpp.fallback_scatter_reduce_sum is on with several threads"
    return f"torch's condition {' '.join(text.split())} holds"


def _for_options(decision: model.KernelDecision) -> str:
    """Return ``, because torch._inductor.config.x = True``; empty where no option is behind it."""
    options = decision.texts.get("options")
    return f", because {options}" if options else ""


def _other_value(decision: model.KernelDecision) -> str:
    """Return what the options behind a library call would have to be."""
    others = []
    for option in filter(None, decision.texts.get("options", "").split(", ")):
        name, _, value = option.partition(" = ")
        if name == _DETERMINISTIC:
            others.append("torch.use_deterministic_algorithms(False)")
        else:
            others.append(f"{name} = {value != 'True'}")
    if not others:
        return ""
    return (
        f"{' or '.join(others)}: with this value, Inductor's own check does not choose the "
        "library call. Not tried."
    )


_DETERMINISTIC = "torch.are_deterministic_algorithms_enabled()"


def _gives_up(decision: model.KernelDecision, operator: str) -> str:
    sentence = f"Inductor can write code for {operator}, but leaves this one to PyTorch's kernel"
    if decision.texts.get("options"):
        return f"{sentence}{_for_options(decision)}."
    lacks = decision.texts.get("lacks")
    if lacks:
        return (
            f"{sentence}: its code for this device does not support "
            f"{lacks.lower().replace('_', ' ')}."
        )
    if decision.reason:
        return f"{sentence}: {decision.reason}."
    return f"{sentence}."


def _no_template(decision: model.KernelDecision, operator: str) -> Words:
    texts = decision.texts
    choices = decision.numbers.get("choices", 0)
    is_on_cpu = texts.get("device") == "cpu"
    match decision.outcome:
        case "autotuning off" if is_on_cpu and operator == "aten.baddbmm":
            return f"Inductor has no template for {operator} on a CPU.", ""
        case "autotuning off" if is_on_cpu:
            return (
                f"Inductor considers its C++ template for {operator} only while autotuning, which "
                "is off.",
                _BATCHED_ON_CPU if operator == _BATCHED else _ON_CPU,
            )
        case "autotuning off":
            return (
                f"Inductor considers a Triton template for {operator} only while autotuning, which "
                "is off (max_autotune and max_autotune_gemm).",
                _TIMED,
            )
        case "dtype":
            allowed = texts.get("allowed", "")
            return (
                (
                    f"Inductor's Triton template for {operator} does not support "
                    f"{texts.get('dtype', '')}"
                )
                + (f", only {allowed}." if allowed else "."),
                "",
            )
        case "small GPU":
            return (
                "Inductor considers no template on this GPU: it has too few multiprocessors "
                "(is_big_gpu).",
                "",
            )
        case "backend off":
            return (
                f"max_autotune_gemm_backends is {texts.get('backends', '')}: no template for "
                f"{operator} is among them.",
                'Add "TRITON" to torch._inductor.config.max_autotune_gemm_backends.',
            )
        case "chosen":
            return (
                f"The library call is one of {counted(choices, 'candidate')} that Inductor chose "
                "from.",
                "",
            )
    if is_on_cpu:
        return f"Inductor has no template for {operator} on a CPU that it could try here.", ""
    return f"Inductor looked for templates for {operator}, and none fits.", ""


def _candidates(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    count = counted(decision.numbers.get("choices", 0), "candidate")
    text = f"{named.node} is one of {count} that Inductor chose from"
    if decision.texts.get("timed") == "False":
        text += ". A virtual GPU cannot time them: the first template in Inductor's order is taken"
    return f"{text}.", ""


# Attention.

_ATTENTION = "scaled_dot_product_attention"


def _attention(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    if decision.outcome != "math":
        return f"torch chooses its {decision.outcome} attention for {_ATTENTION}.", ""
    why = [text.removesuffix(".") for text in decision.reason.split("\n") if text]
    changes = [text for text in decision.texts.get("would_be_fused", "").split("\n") if text]
    if _MASK_WITH_GRADIENT in changes:
        why.append("attn_mask requires grad")
    text = (
        f"torch chooses the math implementation of {_ATTENTION} (matmul, softmax, matmul), not "
        "flash attention"
    )
    if why:
        text += f": {'; '.join(why)}"
    elif not changes:
        text += "; it does not say why"
    change = f"With {' or '.join(changes)} torch chooses flash attention. Not tried."
    return f"{text}.", change if changes else ""


_MASK_WITH_GRADIENT = "attn_mask without requires_grad"
"""Of ``_changes_to_fused`` (capture/dynamo/attention_choices.py)."""


# Layouts.


def _layout(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    texts, numbers = decision.texts, decision.numbers
    to = order(texts.get("sizes", ""), texts.get("to", ""))
    before = order(texts.get("sizes", ""), texts.get("from", ""))
    value = named.about or "A value"
    bytes_text = f" ({size(numbers['bytes'])})" if "bytes" in numbers else ""
    if decision.outcome == "copied":
        text = f"{value}{bytes_text} is copied"
        if named.kernel:
            text += f" by {named.kernel}"
        text += f" from {before or 'its view'} to {to}"
    elif decision.outcome == "computed so":
        text = f"{value}{bytes_text} is written to memory here, in the order {to}"
    else:
        text = f"{value} is written in the order {to}, not {before}"
    asks, change = _who_asks(decision, named)
    also = texts.get("also")
    if also:
        names = also.split(", ")
        asks += f"; {listed(names, 4)} also {'needs' if len(names) == 1 else 'need'} it"
    if decision.outcome != "copied":
        change = ""
    return f"{text}: {asks}.", change


_CHANNELS_LAST = "channels_last"

_GIVE = (
    "Use channels_last from the start: model.to(memory_format=torch.channels_last), and the same "
    "for the input."
)

_EAGER_STRIDES = ("constrain_to_fx_strides", "constrain_to_fake_tensors", "sdpa_constraint")

_CONTIGUOUS = ("require_contiguous", "require_contiguous_strides", "require_dense")


def _who_asks(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    function = decision.check.partition(" ")[0]
    texts = decision.texts
    to = order(texts.get("sizes", ""), texts.get("to", ""))
    if decision.reason == "output":
        return "your function returns it, with the strides that it has in eager mode", ""
    if decision.reason == "gradient":
        return "the backward returns it, as a gradient in this order", ""
    if decision.reason == "saved":
        return "it is passed to the backward in this order" + _as_convolutions(texts, to), ""
    if decision.reason == "as_strided":
        return "as_strided reads it by the strides that it has in eager mode", ""
    if to == _CHANNELS_LAST and texts.get("channels_last") == "True":
        asks = f"{named.node} asks for it" + _as_convolutions(texts, to)
        return asks, _GIVE if named.is_input else ""
    if function in _EAGER_STRIDES:
        return f"{named.node} gets its inputs with the strides that they have in eager mode", ""
    if function in _CONTIGUOUS or to == "contiguous":
        return f"{named.node} asks for a contiguous tensor", ""
    return f"{named.node} asks for it ({function})", ""


def _as_convolutions(texts: Mapping[str, str], to: str) -> str:
    if to == _CHANNELS_LAST and texts.get("channels_last") == "True":
        return ", because convolutions of this graph run in channels_last"
    return ""


def order(sizes: str, strides: str) -> str:
    """Return strides in words: ``contiguous``, ``channels_last``, ``transposed``, or themselves;
    empty without any.
    """
    if not strides:
        return "" if sizes else "contiguous"
    shape, steps = _numbers(sizes), _numbers(strides)
    if len(shape) != len(steps):
        return f"strides ({strides})"
    dimensions = range(len(shape))
    channels = [0, *range(2, len(shape)), 1]
    transposed = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    for name, sequence in (
        ("contiguous", list(dimensions)),
        (_CHANNELS_LAST, channels if len(shape) in (4, 5) else []),
        ("transposed", transposed if len(shape) > 1 else []),
    ):
        if sequence and steps == _dense(shape, sequence):
            return name
    return f"strides ({strides})"


_NUMBER = re.compile(r"-?[0-9]{1,18}")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(", ") if _NUMBER.fullmatch(part)]


def _dense(shape: list[int], sequence: list[int]) -> list[int]:
    """Return the strides of a tensor whose dimensions lie in this sequence, outermost first."""
    strides = [0] * len(shape)
    step = 1
    for dimension in reversed(sequence):
        strides[dimension] = step
        step *= shape[dimension]
    return strides


# Reductions and tiles.


_AT_ONCE = (
    "Inductor holds up to 1,024 elements at once where they are contiguous, and 64 otherwise."
)
"""From ``should_use_persistent_reduction`` (torch/_inductor/choices.py)."""


def _reduction(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    numbers = decision.numbers
    outputs, elements = numbers.get("outputs", 0), numbers.get("elements", 0)
    of_each = f"{counted(outputs, 'result')} of {counted(elements, 'element')}"
    if outputs > 1:
        of_each += " each"
    processors = counted(numbers.get("processors", 0), "multiprocessor")
    match decision.outcome:
        case "split":
            parts = counted(numbers.get("splits", 0), "part")
            return (
                f"{named.node} is split into {parts} for each result, which a second reduction "
                f"combines: {of_each} give {processors} too little parallel work.",
                "",
            )
        case "split as its input":
            return f"{named.node} is split like the reduction whose result it reads.", ""
        case "not split" if decision.texts.get("may_split") == "False":
            return (
                f"{named.node} is not split: torch._inductor.config.split_reductions is off.",
                "Set torch._inductor.config.split_reductions = True.",
            )
        case "not split":
            return (
                f"{named.node} is one reduction, not split in two: {of_each}, on {processors}.",
                "",
            )
        case "persistent":
            return f"A block holds all {elements:,} elements of a result at once.", ""
        case "cooperative":
            return f"Several blocks work together on one result: {of_each}.", ""
    loop = f"A block loops over the {elements:,} elements of a result"
    if decision.texts.get("may_be_persistent") == "False":
        option = "torch._inductor.config.triton.persistent_reductions"
        return f"{loop}: {option} is off.", f"Set {option} = True."
    return f"{loop}. {_AT_ONCE}", ""


def _tiles(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    numbers = decision.numbers
    sizes = {name: numbers[name] for name in ("z", "y", "x") if name in numbers}
    tiles = " and ".join(f"{name} of {count:,}" for name, count in sizes.items())
    text = f"Blocks are tiled in {decision.outcome}, {tiles}"
    scores = [numbers.get(f"score_{name}", 0) for name in sizes]
    if all(scores):
        read = " and ".join(
            f"{score:,} along {name}" for name, score in zip(sizes, scores, strict=True)
        )
        text += (
            f": bytes are accessed in order along each of them ({read}, by Inductor's count, "
            "which counts writes twice)"
        )
    return f"{text}.", ""


# Loops of C++.


def _vectors(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    numbers, texts = decision.numbers, decision.texts
    lanes, loop, tail = (numbers.get(name, 0) for name in ("lanes", "loop", "tail"))
    match decision.outcome:
        case "no vector instructions":
            return "Not vectorized: Inductor found no vector instructions of this CPU.", ""
        case "dtype":
            return (
                f"Not vectorized: Inductor's C++ has no vectors of {texts.get('dtypes', '')}.",
                "Other types, such as int32 or float32, are vectorized.",
            )
        case "not contiguous":
            return (
                f"Not vectorized: {numbers.get('not_contiguous', 0):,} of "
                f"{counted(numbers.get('operations', 0), 'operation')} in the loop access memory "
                "with gaps.",
                "Let the innermost loop access memory in order: no step, slice or transpose in "
                "the last dimension.",
            )
        case "short loop":
            return f"Not vectorized: the innermost loop has only {loop:,} elements.", ""
        case "no loop":
            return "It has no loop.", ""
    instructions = texts.get("instructions", "")
    text = f"Vectorized ({instructions}): {lanes} elements at a time"
    if decision.outcome == "vectorized in two dimensions":
        text += f", in tiles of {lanes} × {lanes} that are transposed"
    if tail:
        how = "together, masked" if texts.get("tail") == "vector" else "one by one"
        text += f", the last {tail} of {loop:,} {how}"
    alone = texts.get("one_by_one")
    if alone:
        return (
            f"{text}. However, {alone} has no vector form in Inductor's C++: its elements are "
            "computed one by one.",
            "",
        )
    return f"{text}.", ""


def _threads(decision: model.KernelDecision, named: NamesInDecision) -> Words:
    numbers = decision.numbers
    threads = numbers.get("threads", 0)
    elements, least = numbers.get("elements", 0), numbers.get("least", 0)
    match decision.outcome:
        case "parallel":
            loops = numbers.get("depth", 1)
            outer = "the outermost loop is" if loops == 1 else f"{loops} loops are"
            return f"Parallel: {outer} shared by {counted(threads, 'thread')}.", ""
        case "no loop":
            return "It has no loop.", ""
        case "one thread":
            return "One thread: torch.get_num_threads() is 1.", ""
    return (
        f"One thread: {counted(elements, 'element')} are fewer than the {least:,} required for "
        f"each of {counted(threads, 'thread')} (torch._inductor.config.cpp.min_chunk_size).",
        "",
    )


_WORDS: Mapping[DecisionKind, Callable[[model.KernelDecision, NamesInDecision], Words]] = {
    "attention": _attention,
    "library call": _library_call,
    "candidates": _candidates,
    "layout": _layout,
    "reduction": _reduction,
    "tiles": _tiles,
    "vectors": _vectors,
    "threads": _threads,
}
