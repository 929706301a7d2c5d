"""This module records the execution of Dynamo's bytecode, instruction by instruction: the program
is called once more under torch's bytecode debugger.

Nothing is compiled meanwhile: what would be is run as Python. What hears of instructions is
bytecode_debugger.py, what writes them down step_recorder.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

import torch

from fx_explorer.capture.dynamo.step_recorder import MAX_STEPS, StepRecorder
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.noting import CallAgain
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.versions import MissingInTorch
from fx_explorer.errors import UsageError
from fx_explorer.model import BytecodeRun

NOTHING_CALLED = "No call has finished yet that could be called again."

A_SCRIPT = (
    "A script has no single function to call again. To record its bytecode, name the function and "
    "its inputs (file.py:function)."
)

NOTHING_RAN = "None of Dynamo's bytecode ran."

NOTHING_COMPILED = (
    "No function was compiled, so there is no bytecode to record; the list of "
    "graph breaks says why."
)


def record_steps(recording: Recording, limit: int = MAX_STEPS) -> str:
    """Call the program once more, record the execution of its bytecode, and describe how that went.

    Raises UsageError when there is nothing to call, or this torch cannot tell. What the program
    raises is recorded; what stops it from outside is raised on, with the steps so far in the
    session.
    """
    if recording.call_again is None:
        program = recording.live_guards.program
        if program is not None and program.callable is None:
            raise UsageError(A_SCRIPT)
        raise UsageError(NOTHING_CALLED)
    try:
        from fx_explorer.capture.dynamo.bytecode_debugger import BytecodeDebugger
    except MissingInTorch as error:
        raise UsageError(
            f"This torch release cannot say what its bytecode does: {error}. Later releases have "
            "it."
        ) from error
    run = BytecodeRun(0, recording.call_again.inputs)
    run = replace(run, id=recording.writer.add(run))
    recorder = StepRecorder(recording, run.id, limit)
    try:
        run = _recorded(recording.call_again, BytecodeDebugger(recorder), run)
    except BaseException:
        run = replace(run, ended="stopped", said="It was stopped before its end.")
        raise
    finally:
        recorder.flush()
        run = _ended(run, recorder, recording)
        recording.writer.update(run)
    return describe_recorded_steps(run)


def _recorded(
    call_again: CallAgain, watching: AbstractContextManager[object], run: BytecodeRun
) -> BytecodeRun:
    try:
        with torch.compiler.set_stance("eager_on_recompile"):
            remarks = call_again(watching)
    # The program may raise anything: it is one of the things recorded.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return replace(
            run, ended="raised", said=f"It raised {one_line(f'{type(error).__name__}: {error}')}."
        )
    return replace(run, ended="returned", said=" ".join(remarks))


def _ended(run: BytecodeRun, recorder: StepRecorder, recording: Recording) -> BytecodeRun:
    sentences = [run.said] if run.said else []
    if not recorder.count:
        nothing = NOTHING_RAN
        if not recording.live_guards.all():
            nothing = f"{NOTHING_RAN} {NOTHING_COMPILED}"
        sentences.insert(0, nothing)
    sentences += [
        f"{name} ran in eager mode: the guards of no compiled version held for this call."
        for name in recorder.as_python
    ]
    ended = run.ended
    if recorder.is_full and ended != "stopped":
        ended = "limit"
    return replace(run, steps=recorder.count, ended=ended, said=" ".join(sentences))


def describe_recorded_steps(run: BytecodeRun) -> str:
    """Return in a sentence how many steps were recorded, and how the run ended."""
    sentence = f"{run.steps:,} steps of Dynamo's bytecode recorded"
    if run.ended == "limit":
        sentence += ": the limit was reached, and the program continued unrecorded"
    return " ".join(filter(None, [f"{sentence}.", run.said]))
