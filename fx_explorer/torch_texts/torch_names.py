"""This module has the meanings of torch's names: the events by which torch times itself
(``dynamo_timed``, torch/_dynamo/utils.py), figures of a compilation, and operators that compute
nothing (views, sizes, and memory without content).
"""

from __future__ import annotations

import re

from fx_explorer.model import Stage

STAGE_OF_EVENT: dict[str, Stage] = {
    "bytecode_tracing": "dynamo",
    "build_guards": "dynamo",
    "_recursive_pre_grad_passes": "pre_grad",
    "aot_collect_metadata": "joint",
    "aot_trace_joint_graph": "joint",
    "_recursive_joint_graph_passes": "joint",
    "min_cut_rematerialization_partition": "forward",
    "_recursive_post_grad_passes": "post_grad",
    "GraphLowering.run": "schedule",
    "Scheduler.__init__": "schedule",
    "Scheduler.codegen": "output_code",
    "PythonWrapperCodegen.generate": "output_code",
    "compile_file": "kernel",
    "async_compile.wait": "kernel",
}
"""Events of ``dynamo_timed`` (torch/_dynamo/utils.py) that belong to one stage. They may nest;
analysis counts time once.
"""

LARGE_METRICS = (
    "inductor_provenance",
    "stack_trace",
    "exception_stack_trace",
    "graph_node_shapes",
    "dynamo_config",
    "inductor_config",
    "functorch_config",
    "compiler_config",
    "recompile_reason",
    "recompile_user_contexts",
    "python_version",
    "pytorch_version",
)
"""Long fields of ``compilation_metrics`` (torch/_dynamo/utils.py), whose data is recorded better
elsewhere. Of 48 layers, the first has 8 MB.
"""


VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "_conj", "_neg_view", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "chunk",
        "detach", "diagonal", "expand", "imag", "lift_fresh", "lift_fresh_copy", "movedim",
        "narrow", "permute", "real", "reshape", "select", "slice", "split", "split_with_sizes",
        "squeeze", "t", "tensor_split", "transpose", "unbind", "unfold", "unsafe_chunk",
        "unsafe_split", "unsqueeze", "view", "view_as_complex", "view_as_real",
    )
)  # fmt: skip

_NOT_COMPUTING = re.compile(
    r"^(aten\.(sym_|_assert|_local_scalar)"
    r"|prims\.(inductor_force|_make_token|_sink_tokens|broadcast_in_dim)|math\.|torch\.sym_"
    r"|aten\.(new_)?empty(_like|_strided|_permuted)?\.|operator\.getitem$)"
)


def computes_nothing(op: str, target: str) -> bool:
    """Return whether no kernel can be expected for a node."""
    if not op.startswith("call_"):
        return True
    return target.rpartition(".")[0] in VIEWS or bool(_NOT_COMPUTING.match(target))
