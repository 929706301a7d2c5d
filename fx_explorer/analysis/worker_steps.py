"""This module puts into words what a worker is doing, from its notices: for the header while a
capture runs, and for dialogs while a trial does.
"""

from __future__ import annotations

from fx_explorer.analysis.words import counted
from fx_explorer.model import Notice, Stage
from fx_explorer.session.file_names import in_file

STAGE_VERBS: dict[Stage, str] = {
    "dynamo": "Dynamo is reading",
    "pre_grad": "pre-grad passes on",
    "joint": "AOTAutograd is tracing",
    "forward": "AOTAutograd is partitioning",
    "backward": "AOTAutograd is partitioning",
    "post_grad": "post-grad passes on",
    "schedule": "Inductor is fusing",
    "output_code": "Inductor is writing code for",
    "kernel": "building kernels of",
}


def describe_step(notice: Notice) -> str:
    """Return the step that the worker has just begun: ``Inductor is fusing [0/0]``; empty for a
    notice of anything else.
    """
    if notice.kind == "worker":
        return notice.text
    if notice.kind == "count":
        return describe_count(notice)
    if notice.kind == "line":
        place = in_file(notice.text, notice.line)
        return f"Dynamo is reading {place}: {counted(notice.operations, 'operation')} so far"
    if notice.kind == "phase" and notice.state == "begin" and notice.stage:
        subject = f"[{notice.compilation}]" if notice.compilation else "the graph"
        return f"{STAGE_VERBS[notice.stage]} {subject}"
    return ""


def describe_count(notice: Notice) -> str:
    """Return ``building kernel 3 of 19``: the one that is being done."""
    number = f"{notice.text} {notice.done + 1:,}"
    return f"{number} of {notice.planned:,}" if notice.planned > notice.done else number


def describe_plan(notice: Notice) -> str:
    """Return ``step 2 of 4``; empty for a notice without a planned step."""
    return f"step {notice.step} of {notice.steps}" if notice.steps else ""
