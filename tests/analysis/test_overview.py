"""These tests check what the overview says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args
from unittest import mock

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.model import CaptureRequest
from fx_explorer.overview.ending import (
    IN_EAGER_MODE,
    OTHER_RANDOM_NUMBERS,
    has_other_random_numbers,
    run_facts,
)
from fx_explorer.overview.overview import overview
from fx_explorer.overview.result_facts import plain_library
from fx_explorer.overview.view_tables import console_table
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import draws_by_inductor
from tests.capture.recorded import Compile, record
from tests.exhaustive import with_others
from tests.sessions import Written, write_training_step


def texts(facts: list[Fact], topic: str) -> list[str]:
    return [fact.text for fact in facts if fact.topic == topic]


def test_a_training_step_that_went_well(step: SessionReader) -> None:
    facts = overview(step)
    assert {fact.severity for fact in facts} == {"good"}
    assert texts(facts, "run")[0] == "mlp.py:MLP ran to its end."
    assert facts[0].detail == "model · forward and backward · cpu · torch 2.13.0"
    assert texts(facts, "graphs") == ["Everything became one graph: 3 operations."]
    assert texts(facts, "kernels") == [
        "Forward: 1 generated kernel doing 1 operation and 2 library calls (addmm)."
    ]
    assert texts(facts, "memory") == [
        "For the backward the forward saves 128 B it computed (1 tensor)."
    ]
    assert texts(facts, "time") == ["Compiling took 2.00 s."]
    assert texts(facts, "next") == [
        "No problem was found. See which of your lines became which kernel."
    ]


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            {"device": "cpu", "gpu": "NVIDIA H100 80GB HBM3"},
            "NVIDIA H100 80GB HBM3",
        ),  # a script that moved its model there
        ({"device": "cuda", "gpu": None, "virtual_gpu": "H100 SXM"}, "virtual H100 SXM"),
        ({"device": "cpu", "gpu": None}, "cpu"),
    ],
)
def test_what_it_ran_on_is_the_gpu_where_one_was_used(
    written: Written, environment: dict[str, object], told: str
) -> None:
    def write(writer: SessionWriter) -> None:
        writer.set_meta("environment", {**environment, "torch": "2.13.0"})
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    assert overview(written(write))[0].detail == f"{told} · torch 2.13.0"


def test_every_fact_leads_somewhere(step: SessionReader) -> None:
    assert all(fact.place or fact.view for fact in overview(step))


def test_while_it_runs_it_says_so_and_promises_nothing(tmp_path: Path) -> None:
    hand = write_training_step(tmp_path / "s.fxs", finished=False)
    with SessionWriter(hand.path) as writer:
        writer.set_meta("progress", "importing torch")
    with SessionReader(hand.path) as reader:
        facts = overview(reader)
    assert texts(facts, "run")[0] == "Still at work: importing torch."
    assert texts(facts, "next") == []


@pytest.mark.parametrize(
    ("outcome", "severity"),
    [
        (model.Outcome("raised", "ValueError: no", 1), "problem"),
        (model.Outcome("killed", "segmentation fault", -11), "problem"),
        (model.Outcome("timed_out", "after 5 s"), "problem"),
        (model.Outcome("not_started", "no such file"), "problem"),
        (model.Outcome("exited", "", 3), "problem"),
        (model.Outcome("exited", "", 0), "good"),
        (model.Outcome("exited", "", 0, is_early=True), "notice"),
        (model.Outcome("incomplete", "no space left on device"), "problem"),
        (model.Outcome("cancelled"), "notice"),
    ],
)
def test_the_end_is_told_first(written: Written, outcome: model.Outcome, severity: str) -> None:
    def write(writer: SessionWriter) -> None:
        writer.set_meta("outcome", outcome.to_json())

    first = overview(written(write))[0]
    assert (first.severity, first.detail) == (severity, outcome.message)


@pytest.mark.parametrize("kind", get_args(model.OutcomeKind))
def test_no_problem_is_claimed_only_where_nothing_above_it_is_one(
    written: Written, kind: model.OutcomeKind
) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1))
        writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.set_meta("outcome", model.Outcome(kind).to_json())

    facts = overview(written(write))
    severities = {fact.severity for fact in facts[:-1]}
    claimed = {
        "good": "No problem was found. See",
        "notice": "No problem was found. Notice:",
        "problem": "Look first at:",
    }
    worst = next(one for one in ("problem", "notice", "good") if one in severities)
    assert facts[-1].text.startswith(claimed[worst])


@pytest.mark.parametrize(
    "kind", [kind for kind in get_args(model.OutcomeKind) if kind not in ("finished", "exited")]
)
def test_nothing_is_said_of_everything_where_the_run_did_not_end_well(
    written: Written, kind: model.OutcomeKind
) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1))
        writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.set_meta("outcome", model.Outcome(kind).to_json())

    facts = overview(written(write))
    assert texts(facts, "graphs") == ["One graph was made: 0 operations."]
    assert texts(facts, "breaks") == ["No graph breaks."]


def test_a_region_that_was_not_compiled_is_a_problem_at_the_end_too(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        row = model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, backend="regional_inductor")
        writer.add(replace(row, missing_stages={"output_code": "no region is marked"}))
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    assert overview(written(write))[-1].text.startswith("Look first at: Nothing of this program")


def test_look_first_at_what_is_worst(written: Written) -> None:
    """A graph break that costs nothing comes after a recompile."""

    def write(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/1", 0, 1, "f", "/p/m.py", 1))
        writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.add(model.Recompile(0, compilation, "0/0", "x == 1", "x == 1", "/p/m.py", 1))
        writer.add(
            model.GraphBreak(
                0, compilation, "GB0025", "asked for", "", (), "/p/m.py", 4, "graph_break()"
            )
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    last = overview(written(write))[-1]
    assert last.topic == "next"
    assert last.text.startswith("Look first at: f was recompiled")


def test_what_to_look_at_first_says_what_the_costliest_break_costs_and_its_advice_stands_once(
    written: Written,
) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(
            model.Compilation(
                0, "0/0", 0, 0, "f", "/p/m.py", 1, status="skipped", error="torch's report"
            )
        )
        for line in (4, 9):
            hints = (f"advice for line {line}",)
            writer.add(
                model.GraphBreak(
                    0,
                    compilation,
                    "GB0025",
                    "asked for",
                    "",
                    hints,
                    "/p/m.py",
                    line,
                    "graph_break()",
                )
            )
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    facts = overview(written(write))
    last, (first, second) = facts[-1], [fact for fact in facts if fact.topic == "breaks"]
    assert last.severity == first.severity == "problem"
    assert last.text == f"Look first at: {first.text}"
    assert "It costs: 1 function not compiled." in last.detail.splitlines()
    told = "\n".join(fact.detail for fact in facts)
    assert told.count("advice for line 4") == told.count("advice for line 9") == 1
    assert "advice" in second.detail + last.detail
    assert "torch's report" not in told
    assert not [fact for fact in facts if "was not compiled; it runs in eager mode" in fact.text]
    assert "Not compiled because of this: f (m.py:1)." in last.detail + second.detail


def test_torchs_names_are_said_in_words_where_there_are_several(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        for frame in (0, 1):
            compilation = writer.add(
                model.Compilation(0, f"{frame}/0", frame, 0, f"f{frame}", "/p/m.py", 1)
            )
            writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    assert (
        "[1/0] is torch's name"
        in next(fact for fact in overview(written(write)) if fact.topic == "graphs").detail
    )


def test_a_program_that_compiled_nothing_is_told_so(written: Written) -> None:
    facts = overview(
        written(lambda writer: writer.set_meta("outcome", model.Outcome("finished").to_json()))
    )
    assert texts(facts, "graphs") == ["Nothing of this program was compiled."]


def test_where_all_was_left_to_python_the_break_that_did_it_is_what_to_look_at(
    written: Written,
) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(
            model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="skipped")
        )
        writer.add(
            model.GraphBreak(
                0, compilation, "GB0025", "asked for", "", (), "/p/m.py", 4, "graph_break()"
            )
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    assert overview(written(write))[-1].text.startswith("Look first at: m.py:4 breaks the graph")


def test_where_all_was_left_to_python_without_a_break_the_function_is_named(
    written: Written,
) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.Fallback(0, 0, "skipped", "f", "/p/m.py", 1, "", "the file is skipped"))
        writer.set_meta("outcome", model.Outcome("finished").to_json())

    assert overview(written(write))[-1].detail == "f: Dynamo does not trace it: the file is skipped"


def test_a_script_that_compiled_nothing_is_told_what_to_do(written: Written) -> None:
    """The worker has read the file, and knows what is in it."""
    said = (
        "To compile a model or function of it: fx-explorer net.py:Net --inputs 'torch.randn(2, 8)'"
    )
    last = overview(
        written(
            lambda writer: writer.set_meta("outcome", model.Outcome("finished", said).to_json())
        )
    )[-1]
    assert (last.text, last.detail) == (
        "Look first at: Nothing of this program was compiled.",
        said,
    )


def test_many_breaks_are_counted_and_only_some_told(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1))
        writer.add_all(
            model.GraphBreak(0, compilation, "GB0025", "asked for", "", (), "/p/m.py", line, "")
            for line in range(1, 10)
        )

    found = texts(overview(written(write)), "breaks")
    assert len(found) == 6
    assert found[-1] == "… and 4 more graph breaks."


def test_breaks_of_a_real_program_name_the_users_lines(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    session = reader(captured("graph_breaks"))
    lines = {row.line for row in session.rows(model.GraphBreak)}
    told = [fact for fact in overview(session) if fact.topic == "breaks"]
    assert told
    assert all(fact.severity == "problem" for fact in told)
    assert {fact.place.line + 1 for fact in told if fact.place} == lines


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("extern_kernels.addmm", "addmm"),
        ("torch.ops.aten.convolution.default", "convolution"),
        ("mkl_linear", "mkl_linear"),
    ],
)
def test_library_calls_are_called_by_their_operation(name: str, plain: str) -> None:
    assert plain_library(name) == plain


def test_one_graph_that_was_cut_is_not_everything(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "m.py", 1))
        writer.add_graph(model.Graph(0, 1, "dynamo", "", call_count=2), [], [])
        writer.add(model.GraphBreak(0, 1, "GB0059", "print", "", (), "m.py", 3, "print(x)"))

    assert texts(overview(written(write)), "graphs") == [
        "The code became 1 graph with 2 operations: it breaks at 1 line."
    ]


REGIONAL = model.Compilation(
    0, "0/0", 0, 0, "f", "m.py", 1, backend="regional_inductor", status="ok"
)


def test_a_graph_without_regions_is_told_to_be_marked(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        missing = {"output_code": "nothing is marked"}
        row = model.Compilation(
            0,
            "0/0",
            0,
            0,
            "f",
            "m.py",
            1,
            backend="regional_inductor",
            status="ok",
            missing_stages=missing,
        )
        writer.add(row)

    assert texts(overview(written(write)), "kernels") == [
        "[0/0] was not compiled: nothing is marked."
    ]


def test_a_graph_that_regional_inductor_has_not_seen_yet_is_no_problem(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        waits = dict.fromkeys(("joint", "output_code"), "not compiled so far")
        writer.add(replace(REGIONAL, missing_stages=waits))

    assert texts(overview(written(write)), "kernels") == []


@pytest.mark.parametrize("is_built", [False, True])
@pytest.mark.parametrize("stream", ["stdout", ""])
def test_lines_printed_while_graphs_ran_in_eager_mode_say_so(
    tmp_path: Path, stream: str, is_built: bool
) -> None:
    path = write_training_step(tmp_path / "s.fxs").path
    with SessionWriter(path) as writer:
        writer.set_meta("build", is_built)
        writer.add(model.ConsoleLine(0, stream, "max diff 0.0"))
    with SessionReader(path) as reader:
        told = stream == "stdout" and not is_built
        assert any(IN_EAGER_MODE in text for text in texts(overview(reader), "run")) == told
        assert (IN_EAGER_MODE in section_of(reader, "console").answer) == told
        assert (IN_EAGER_MODE in (console_table(reader).notice or "")) == told


@pytest.mark.parametrize(("rate", "differs"), [(0.5, True), (0.0, False)])
def test_a_program_that_draws_random_numbers_is_told_to_have_drawn_others(
    tmp_path: Path, rate: float, differs: bool
) -> None:
    def program(compile_: Compile) -> None:
        compile_(lambda x: torch.nn.functional.dropout(x, rate) * 2)(torch.ones(8))

    with record(tmp_path / "s.fxs", program) as reader:
        assert draws_by_inductor(reader) == differs
        with mock.patch.object(SessionReader, "request", return_value=CaptureRequest("t", "")):
            assert has_other_random_numbers(reader) == differs


DROPOUT = """import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout({rate}))
example_inputs = (torch.ones(2, 4),)
"""


@pytest.mark.parametrize(("rate", "differs"), with_others([(0.5, True)], [(0.0, False)]))
def test_an_inspection_of_a_program_with_dropout_says_that_it_drew_other_numbers(
    captured: Callable[..., Path],
    reader: Callable[[Path], SessionReader],
    shared_folder: Path,
    rate: float,
    differs: bool,
) -> None:
    script = shared_folder / f"dropout_{int(10 * rate)}.py"
    script.write_text(DROPOUT.format(rate=rate))
    details = [fact.detail for fact in overview(reader(captured(script))) if fact.topic == "run"]
    assert any("nothing was built" in fact.text for fact in overview(reader(captured(script))))
    assert any(OTHER_RANDOM_NUMBERS in detail for detail in details) == differs


def test_what_could_not_be_recorded_in_several_compilations_is_one_fact(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("outcome", model.Outcome("finished").to_json())
        for _ in range(3):
            writer.add(model.Failure(0, 0, "recorder", "dynamo", "KeyError", "no x", 0))
    with SessionReader(path) as reader:
        texts = [fact.text for fact in run_facts(reader)]
    assert "One view could not be recorded (dynamo): no x (3 times)" in texts
