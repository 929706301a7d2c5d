"""These tests read Dynamo's bytecode as Python source, where depyf is installed and where it is
not.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.capture.dynamo.bytecode_as_python import (
    MISSING,
    MOST_BYTES,
    bytecode_as_python,
    readable,
)
from tests.capture.recorded import Compile, failures, record


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("between")
    return y + 1


def program(compile_it: Compile) -> None:
    compile_it(broken)(torch.ones(3))


def test_without_depyf_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "depyf", None)
    monkeypatch.setitem(sys.modules, "depyf.decompiler", None)
    text = bytecode_as_python(broken.__code__, "LOAD_FAST", {})
    assert text == MISSING
    assert "pip install" in text


def test_bookkeeping_is_left_out_and_resume_functions_have_their_names() -> None:
    source = (
        "def f(x):\n"
        "    tmp_1 = __import_torch_dot__dynamo_dot_utils.record_pregraph_bytecode_enter\n"
        "    tmp_2 = __import_torch_dot__dynamo_dot_utils.record_pregraph_bytecode_enter()\n"
        "    __import_torch_dot__dynamo_dot_utils.record_pregraph_bytecode_exit(tmp_2)\n"
        "    return __resume_at_20_3(x)\n"
    )
    names = {"__resume_at_20_3": "torch_dynamo_resume_in_f_at_7"}
    assert readable(source, names) == "def f(x):\n    return torch_dynamo_resume_in_f_at_7(x)\n"


def test_what_cannot_be_written_is_listed() -> None:
    pytest.importorskip("depyf")

    def with_context(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return x + 1

    text = bytecode_as_python(with_context.__code__, "  LISTED", {})
    assert "depyf cannot write this bytecode as Python" in text
    assert text.endswith("  LISTED\n")
    long = broken.__code__.replace(co_code=broken.__code__.co_code * MOST_BYTES)
    assert "would take minutes" in bytecode_as_python(long, "  LISTED", {})


def test_the_code_that_python_runs_is_readable(tmp_path: Path) -> None:
    pytest.importorskip("depyf")
    reader = record(tmp_path / "s.fxs", program, backend="eager", record_trace=True)
    assert not failures(reader)
    first, rest = (
        reader.text(row.text) for row in reader.rows(model.Artifact, kind="bytecode_python")
    )
    for text in (first, rest):
        ast.parse(text)
        assert "record_pregraph" not in text
        assert "__compiled_fn_" in text
    assert "print" in first
    assert "torch_dynamo_resume_in_broken_at_" in first
    reader.close()


def test_it_is_not_made_unless_asked_for(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", program, backend="eager")
    assert not reader.rows(model.Artifact, kind="bytecode_python")
    reader.close()
