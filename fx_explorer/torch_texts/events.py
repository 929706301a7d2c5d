"""The events by which torch times itself (``dynamo_timed``, torch/_dynamo/utils.py)."""

from __future__ import annotations

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
