"""These tests check single records of a log: the measurements of autotuning are shown, and a record
that no session can hold is left out alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.answers.graphs_and_kernels import of_decisions
from fx_explorer.instruments.decisions.view import decisions_table
from fx_explorer.instruments.kernels.candidates_view import candidates_table
from fx_explorer.instruments.kernels.launched import describe_configuration, measured_choices
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader
from fx_explorer.tui.screens.pipeline_bar import pipeline
from tests.ranks.logs_of_ranks import H200, text_of

RANK_0 = H200 / "h200_ranks_diverge" / "rank_0.log.gz"

RANK_1 = H200 / "h200_ranks_diverge" / "rank_1.log.gz"


def opened(log: bytes, folder: Path) -> SessionReader:
    (folder / "log").write_bytes(log)
    read_log(folder / "log", folder / "s.fxs")
    return SessionReader(folder / "s.fxs")


def record(fields: dict[str, object], text: str = "") -> bytes:
    head = f"V1121 03:21:27.000000 1284 torch/_dynamo/x.py:1] {json.dumps(fields)}\n"
    below = "".join(f"\t{line}\n" for line in text.splitlines())
    return (head + below).encode()


def about(frame: int = 0, attempt: int = 0) -> dict[str, object]:
    return {"frame_id": frame, "frame_compile_id": 0, "attempt": attempt}


LARGE = 10**12

BAD: dict[str, bytes] = {
    "frame": record({"artifact": {"name": "new", "encoding": "string"}, **about(10**9)}, "a text"),
    "line of a frame": record(
        {"dynamo_start": {"stack": [{"line": LARGE, "name": "g", "filename": 0}]}, **about(7)}
    ),
    "name that is none": record(
        {"dynamo_start": {"stack": [{"line": -LARGE, "name": ["g"], "filename": {}}]}, **about(7)}
    ),
    "attempt": record({"create_symbol": {"symbol": "s0", "val": "3"}, **about(8, LARGE)}),
    "first line of the code": record(
        {"compilation_metrics": {"co_firstlineno": LARGE, "co_name": "g"}, **about(9)}
    ),
    "time": record({"compilation_metrics": {"entire_frame_compile_time_s": 0}, **about(9)}).replace(
        b'_s": 0', b'_s": 1e999'
    ),
    "depth of JSON": record({"cudagraph_skip": {"a": 0}, **about(9)}).replace(
        b'{"a": 0}', b'{"a":' * 80 + b"0" + b"}" * 80
    ),
    "operand of a graph": record(
        {"dynamo_output_graph": {"sizes": {}}, **about(10)}, "class GraphModule(torch.nn.Module):"
    ),
    "line in a stack": record(
        {
            "symbolic_shape_specialization": {
                "symbol": "s0",
                "user_stack": [{"line": LARGE, "name": "g", "filename": 0}],
            },
            **about(),
        }
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_record_that_no_session_can_hold_costs_only_itself(kind: str, tmp_path: Path) -> None:
    whole = text_of(RANK_0)
    (tmp_path / "whole").mkdir()
    with opened(whole, tmp_path / "whole") as reader:
        nodes = reader.count(model.Node)
    with opened(BAD[kind] + whole + BAD[kind], tmp_path) as reader:
        (row,) = [row for row in reader.rows(model.Compilation) if row.name == "0/0"]
        assert (row.status, row.function, row.line) == ("ok", "f", 27)
        assert reader.count(model.Node) == nodes
        assert overview(reader)
        assert all(reader.rows(table) is not None for table in (model.Stack, model.SymbolEvent))
        log = reader.meta("log")
        assert reader.meta("skipped_records") in (0, 1, 2)
        assert log["records"] > 100


STATS = {
    "num_choices": 20,
    "num_triton_choices": 19,
    "best_kernel": "triton_mm_12",
    "best_kernel_desc": "BLOCK_M=64, BLOCK_N=64",
    "best_time": 0.0083,
    "best_triton_pos": 0,
}
"""As ``_log_autotune_choices_stats`` of torch 2.13 writes it: milliseconds."""


def test_what_autotuning_measured_is_told_with_the_best_and_its_time(tmp_path: Path) -> None:
    arguments = {"autotune_choices_stats": json.dumps(STATS), "compile_id": "0/0"}
    end = {"name": "mm_template_autotuning", "ts": 2.0, "ph": "E", "args": arguments}
    event = record({"chromium_event": {}, **about()}, json.dumps(end))
    with opened(text_of(RANK_0) + event, tmp_path) as reader:
        (choice,) = measured_choices(reader)
        facts = [fact.text for fact in overview(reader) if fact.topic == "kernels"]
        (row,) = of_decisions(reader, "").rows
        view = decisions_table(reader)
    sentence = (
        "Inductor measured 20 choices for mm, 19 of them Triton templates: the best is "
        "triton_mm_12 at 8.3 µs"
    )
    assert choice.description == sentence
    assert f"{sentence}." in facts
    assert view.empty == f"{sentence}."
    assert row["sentence"] == f"[0/0] {sentence}."
    assert row["numbers"]["best_ns"] == 8300
    assert row["texts"] == {"best": "triton_mm_12", "options": "BLOCK_M=64, BLOCK_N=64"}


def test_configurations_of_a_log_of_a_gpu_do_not_ask_for_one(tmp_path: Path) -> None:
    with opened(text_of(H200 / "h200_llama_train.log.gz"), tmp_path) as reader:
        kernel = next(row for row in reader.rows(model.Kernel) if row.language == "triton")
        options = describe_configuration(reader, kernel)
        table = candidates_table(reader, kernel)
    assert options == "XBLOCK 1, num_warps 4, num_stages 1"  # torch's record triton_kernel_info
    assert "--gpu" not in table.empty
    assert options in table.empty


def test_the_bar_marks_the_stage_that_failed(tmp_path: Path) -> None:
    with opened(text_of(RANK_1), tmp_path) as reader:
        states = {step.name: step.state for step in pipeline(reader)}
        failed = [row.stage for row in reader.rows(model.Failure)]
    assert failed == ["joint"]  # the frames below compile_fx.py are of torch/_functorch
    assert (states["Dynamo"], states["AOTAutograd"]) == ("done", "failed")
