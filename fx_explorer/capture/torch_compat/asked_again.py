"""What Inductor asks of each node, though there are few answers: a layer's tensors have the sizes, types and devices of the
layer before. Here it is answered once for each kind.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import goes_by

MOST_KINDS = 100_000
"""So many answers are kept."""

_ASKED_OF_A_NODE = {
    *(
        "target",
        "aten",
        "view_as_complex",
        "default",
        "op",
        "lift_fresh_copy",
        "pytree",
        "arg_tree_leaves",
        "args",
        "kwargs",
    ),
    *("isinstance", "torch", "fx", "Node", "meta", "tree_leaves", "_subclasses", "FakeTensor"),
    *("unsupported_output_tensor", "unsupported_input_tensor"),
}
"""What ``fallback_node_due_to_unsupported_type`` goes by, in the releases whose rules are known."""

_ASKED_OF_A_TENSOR = {
    *(
        "is_complex",
        "_warn_complex_not_supported",
        "is_meta",
        "is_sparse",
        "is_triton_fp8_dtype_supported",
        "dtype",
        "device",
    ),
    *(
        "torch",
        "float8_e8m0fnu",
        "isinstance",
        "target",
        "_ops",
        "OpOverload",
        "aten",
        "view",
        "cat",
        "clone",
        "default",
    ),
    *(
        "_scaled_mm",
        "_scaled_mm_v2",
        "is_view",
        "ops",
        "prims",
        "convert_element_type",
        "unsupported_input_tensor",
        "is_cpu",
    ),
    *("config", "disable_cpp_codegen"),
}
"""The same for ``unsupported_input_tensor`` and ``unsupported_output_tensor``. They ask a node only about the type that is left
to them here, and about complex numbers."""


def answer_once(stack: contextlib.ExitStack) -> None:
    """Keep such answers until the stack is closed."""
    _whether_strides_are_dense(stack)
    _whether_types_are_supported(stack)


def _whether_strides_are_dense(stack: contextlib.ExitStack) -> None:
    """Keep whether numbers are the strides of a dense tensor (``_is_non_overlapping_and_dense_or_false``), to answer which
    torch made a new class each time until 2.11.
    """
    import torch._prims_common as common

    name = "_is_non_overlapping_and_dense_or_false"
    if not hasattr(common, name):
        return

    def make(original: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        answer_of_numbers = lru_cache(MOST_KINDS)(original)

        def is_dense(sizes: Any, strides: Any) -> bool:
            of_numbers = {*map(type, sizes), *map(type, strides)} <= {int}
            return (
                answer_of_numbers(tuple(sizes), tuple(strides))
                if of_numbers
                else original(sizes, strides)
            )

        vars(is_dense)["_torchdynamo_inline"] = (
            original  # what Dynamo looks at in its stead, where a compiled function asks
        )
        return is_dense

    stack.enter_context(patched(common, name, make))


def _whether_types_are_supported(stack: contextlib.ExitStack) -> None:
    """Keep which types of tensors Inductor generates code for (``fallback_node_due_to_unsupported_type``, of each node for each
    of its passes over a graph). torch then looks only at nodes with other types, and at those with several results.
    """
    from torch._inductor import config, lowering
    from torch._subclasses.fake_tensor import FakeTensor

    name = "fallback_node_due_to_unsupported_type"
    asked = {
        name: _ASKED_OF_A_NODE,
        **dict.fromkeys(
            ("unsupported_input_tensor", "unsupported_output_tensor"), _ASKED_OF_A_TENSOR
        ),
    }
    if not all(
        goes_by(getattr(lowering, function, None), names) for function, names in asked.items()
    ):
        return
    known: dict[tuple[torch.dtype, torch.layout, torch.device], bool] = {}
    by_the_node = getattr(torch, "float8_e8m0fnu", None)

    def is_supported(value: Any) -> bool:
        if type(value) is not FakeTensor:
            return value is None
        kind = value.dtype, value.layout, value.device
        answer = known.get(kind)
        if answer is None:
            depends_on_the_node = value.dtype.is_complex or value.dtype is by_the_node
            answer = known[kind] = (
                not depends_on_the_node and not lowering.unsupported_input_tensor(value)
            )
        return answer

    def is_left_to_cpp(value: Any) -> bool:
        return value is not None and value.device.type == "cpu" and config.disable_cpp_codegen

    def make(original: Callable[..., bool]) -> Callable[..., bool]:
        def falls_back(node: torch.fx.Node, allow_cpu_inputs: bool = True) -> bool:
            result = node.meta.get("val")
            values = [result, *[one.meta.get("val") for one in node.all_input_nodes]]
            if all(map(is_supported, values)) and not is_left_to_cpp(result):
                return False
            return original(node, allow_cpu_inputs)

        return falls_back

    for module in ("lowering", "graph", "pattern_matcher"):
        owner = importlib.import_module(f"torch._inductor.{module}")
        if hasattr(owner, name):
            stack.enter_context(patched(owner, name, make))
