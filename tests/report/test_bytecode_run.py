"""These tests check the report on recorded bytecode."""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step


def test_the_report_counts_the_steps_and_names_the_functions_and_graphs(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    write_training_step(path)
    resumed = "torch_dynamo_resume_in_f_at_4"
    with SessionWriter(path) as writer:
        run = writer.add(
            model.BytecodeRun(0, "(f32[3])", "raised", 3, "It raised ValueError: too large.")
        )
        for call, function, calls in (
            (1, "f", "__compiled_fn_1"),
            (1, "f", resumed),
            (2, resumed, ""),
        ):
            writer.add(model.BytecodeStep(0, run, call, call - 1, function, 1, 1, 0, calls=calls))
    with SessionReader(path) as reader:
        assert json_report(reader)["bytecode_run"] == {
            "inputs": "(f32[3])",
            "ended": "raised",
            "steps": 3,
            "in_words": "It raised ValueError: too large.",
            "functions": ["f", resumed],
            "graphs_called": ["__compiled_fn_1"],
        }


def test_without_a_recording_there_is_none(tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert json_report(reader)["bytecode_run"] is None
