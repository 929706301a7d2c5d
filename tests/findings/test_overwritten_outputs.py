"""These tests check the finding about a result of a CUDA graph that is read too late. torch's error is
one of a run on an H200 (torch 2.11).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fx_explorer import model
from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader, SessionWriter

Written = Callable[[Callable[[SessionWriter], object]], SessionReader]

MESSAGE = (
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a "
    'subsequent run. Stack trace: File "/home/me/step.py", line 7, in step'
)

TRACEBACK = f"""Traceback (most recent call last):
  File "/home/me/step.py", line 14, in <module>
    total = sum(output.sum() for output in kept)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/step.py", line 14, in <genexpr>
    total = sum(output.sum() for output in kept)
                ^^^^^^^^^^^^
  File "/usr/lib/python3/site-packages/torch/_tensor.py", line 99, in sum
    return _C.sum(self)
{MESSAGE}
    return (x.sin() @ x.T).softmax(-1). To prevent overwriting, clone the tensor outside of \
torch.compile() or call torch.compiler.cudagraph_mark_step_begin() before each model invocation.
"""


def overwritten(written: Written, message: str, traceback: str) -> list[Finding]:
    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, "/home/me/step.py", 0))
        text = writer.text(traceback) if traceback else 0
        writer.add(model.Failure(0, 0, "program", None, "RuntimeError", message, text))

    return [row for row in findings(written(write)) if row.kind == "overwritten output"]


def test_both_lines_are_named(written: Written) -> None:
    (finding,) = overwritten(written, MESSAGE, TRACEBACK)
    assert finding.text == (
        "step.py:14 reads the result of step.py:7 after a later call overwrote it: it is the "
        "output of a CUDA graph."
    )
    assert finding.urgency == "failed"
    assert finding.evidence == (
        "It is read here: total = sum(output.sum() for output in kept)",
        "It was computed here: return (x.sin() @ x.T).softmax(-1)",
    )
    assert ".clone()" in finding.remedies[0].text
    assert "cudagraph_mark_step_begin" in finding.remedies[1].text


def test_without_a_traceback_it_is_said_without_lines(written: Written) -> None:
    (finding,) = overwritten(written, MESSAGE, "")
    assert finding.text.startswith("The program reads ")


@pytest.mark.parametrize(
    "message", ["RuntimeError: a tensor was overwritten", "RuntimeError: CUDA out of memory"]
)
def test_other_errors_are_none(message: str, written: Written) -> None:
    assert not overwritten(written, message, "")


def test_a_gradient_needs_memory_of_its_own(written: Written) -> None:
    message = MESSAGE.replace("tensor output", "gradient tensor output")
    traceback = TRACEBACK.replace(MESSAGE, message).partition(" To prevent")[0]
    advice = " This can happen with torch.compile(mode='reduce-overhead') and gradient accumulation"
    (finding,) = overwritten(written, message, traceback + advice)
    assert finding.evidence[1] == "It was computed here: return (x.sin() @ x.T).softmax(-1)"
    remedies = " ".join(remedy.text for remedy in finding.remedies)
    assert "zero_grad" in remedies
    assert "clone" not in remedies
