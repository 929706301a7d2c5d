"""These tests check the findings about compilations that failed, on real errors of torch's and on
tracebacks as torch writes them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.known_errors import KNOWN_ERRORS, known_error
from fx_explorer.findings.left_out_calls import without_call
from fx_explorer.findings.tracebacks import parse_compiler_traceback
from fx_explorer.session import SessionReader
from tests.shared_files import CASES

SAMPLES = {
    "InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config": "machine",
    "TritonMissing: Cannot find a working triton installation.": "machine",
    "ConstraintViolationError: Constraints violated (L['x'].size()[0])!": "yours",
    "GuardOnDataDependentSymNode: Could not guard on data-dependent expression u0 > 5": "yours",
    "RuntimeError: There was no fake impl registered for my::op": "yours",
    "RuntimeError: Cannot access data pointer of Tensor (e.g. FakeTensor)": "yours",
    "FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True": "yours",
    "TorchRuntimeError: Dynamo failed to run FX node with fake tensors": "yours",
    "OSError: [Errno 28] No space left on device": "machine",
    "RuntimeError: INTERNAL ASSERT FAILED at ivalue.h": "torch",
    "RuntimeError: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent "
    "run": "yours",
    "RuntimeError: Error: accessing gradient tensor output of CUDAGraphs that has been overwritten "
    "by a subsequent run": "yours",
}


@pytest.mark.parametrize(("message", "fault"), SAMPLES.items(), ids=str)
def test_whose_fault_a_known_error_is(message: str, fault: str) -> None:
    known = known_error(message)
    assert known is not None
    assert known.fault == fault


def test_an_error_that_nobody_knows_is_not_explained() -> None:
    assert known_error("ValueError: the program's own words") is None


def test_each_source_is_a_file_of_torch() -> None:
    torch = Path(importlib.util.find_spec("torch").origin).parent.parent  # type: ignore[union-attr, arg-type]
    files = {error.source.partition(",")[0] for error in KNOWN_ERRORS}
    missing = [f for f in files if f.startswith("torch/") and not (torch / f).exists()]
    assert not missing


INSIDE = """Traceback (most recent call last):
  File "/x/torch/_dynamo/convert_frame.py", line 1903, in _compile_inner
    check_fn = dynamo_output.build_guards(
  File "/x/torch/_dynamo/variables/dicts.py", line 1430, in get_example_value_dict
    return object.__getattribute__(value, "__dict__")
AttributeError: 'method' object has no attribute '__dict__'

from user code:
   File "/home/me/train.py", line 15, in training_step
    self.log("loss", loss, prog_bar=True)
  File "/x/lightning/pytorch/core/module.py", line 514, in log
    and is_param_in_hook_signature(self.training_step)

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


def test_a_traceback_gives_error_stage_and_lines() -> None:
    parsed = parse_compiler_traceback(INSIDE)
    assert parsed.error == "AttributeError: 'method' object has no attribute '__dict__'"
    assert parsed.stage == "while Dynamo read the Python code"
    assert parsed.raised_in == "_dynamo/variables/dicts.py"
    lines = [(frame.file, frame.line) for frame in parsed.user_frames]
    assert lines == [("/home/me/train.py", 15), ("/x/lightning/pytorch/core/module.py", 514)]


@pytest.mark.parametrize("text", ["", "nothing of a traceback", "from user code:\n", "\0" * 50])
def test_any_text_may_stand_in_place_of_a_traceback(text: str) -> None:
    assert parse_compiler_traceback(text).user_frames == ()


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ('def f(self):\n    self.log("a")\n', "torch.compiler.disable(self.log)(…)"),
        ("def f(x):\n    return h(g(x).values().sum())\n", "torch.compiler.disable(h)(…)"),
        ("def f(x):\n    return g(x).values().sum()\n", "torch.compiler.disable(g)(…)"),
        ("def f(é):\n    é = zähle(é)\n", "torch.compiler.disable(zähle)(…)"),
        ("def f(x):\n    return x + 1\n", None),
        ("def f(x):\n    return torch.sin(x)\n", None),
    ],
)
def test_the_call_that_is_left_out(source: str, code: str | None) -> None:
    import ast

    edited = without_call(source, ast.parse(source), 2)
    if code is None:
        assert edited is None
    else:
        assert edited is not None
        assert edited.code == code
        ast.parse(edited.text)


def the_finding(reader: SessionReader) -> Finding:
    (finding,) = [row for row in findings(reader) if row.kind == "compiler error"]
    return finding


def test_a_fault_while_guards_are_written(captured, reader) -> None:
    session = reader(captured(CASES / "05_ragged_norm.py", exit_code=3))
    finding = the_finding(session)
    assert (
        finding.text
        == "pooled could not be compiled: an error was raised while torch wrote its guards."
    )
    assert finding.place is not None
    assert finding.place.line + 1 == 9
    assert "a PyTorch bug, not an error in the program" in finding.detail
    assert findings(session)[0] == finding


def test_a_context_function_that_dynamo_refuses(captured, reader) -> None:
    finding = the_finding(reader(captured(CASES / "17_checkpoint_order.py", exit_code=3)))
    assert finding.place is not None
    assert finding.place.line + 1 == 29
    assert "functools.partial" in finding.detail
    assert "The cause is in the program." in finding.detail


SUPPRESSED = """
import torch

torch._dynamo.config.suppress_errors = True


def refusing(graph, inputs):
    raise RuntimeError({message})


def inner(x):
    return torch.relu(x) + 1


def middle(x):
    return inner(x) * 2


def outer(x):
    return middle(x) - 3


print(torch.compile(outer, backend=refusing)(torch.ones(4)))
"""


def test_nested_functions_that_fail_by_one_error_are_one_finding(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "suppressed.py"
    file.write_text(SUPPRESSED.format(message="'no graph is taken'"))
    finding = the_finding(reader(captured(file)))
    assert finding.count == 3
    assert finding.text == (
        "inner could not be compiled: an error was raised in the backend, and it runs in eager "
        "mode, because suppress_errors is set (3 times)."
    )
    assert "The same error was raised for outer (suppressed.py:19) and middle" in finding.detail
    assert "It was raised at suppressed.py:8" in finding.detail
    # It runs in eager mode already.
    assert "force_eager" not in finding.detail


def test_other_errors_of_nested_functions_are_other_findings(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "suppressed_each.py"
    file.write_text(SUPPRESSED.format(message="f'{len(graph.graph.nodes)} nodes are too many'"))
    found = findings(reader(captured(file)))
    errors = [finding for finding in found if finding.kind == "compiler error"]
    assert [finding.count for finding in errors] == [1, 1, 1]
