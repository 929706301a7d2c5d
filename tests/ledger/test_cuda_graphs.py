"""These tests check the fate of CUDA graphs that a program asked for, from recorded events of
torch.

There is no GPU here. torch's own functions are called as they are on one: its messages are those of
a run on an H100 (torch 2.11).
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor import cudagraph_utils, output_code

from fx_explorer import model
from fx_explorer.analysis.cuda_graph_states import CudaGraph, CudaGraphReason, cuda_graphs
from fx_explorer.findings.lost_cuda_graphs import find_cuda_graphs
from fx_explorer.overview.compiled_facts import cuda_graph_facts
from fx_explorer.report.json_report import cuda_graphs_of_report
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import failures, record

MUTATED = """skipping cudagraphs due to mutated inputs (1 instances). Found from :
   File "/home/me/step.py", line 7, in step
    cache.add_(x)
"""

STACK = """  File "/home/me/step.py", line 9, in step
    scale = table.exp().sum()
"""

Row = tuple[int, str, dict[str, object]]
HANDED_OVER = {"direction": "inference", "parts": None, "mutated": ""}


def session(path: Path, *rows: Row, mode: str = "reduce-overhead") -> SessionReader:
    with SessionWriter(path) as writer:
        writer.add(model.OptionInForce(0, "compile.mode", json.dumps(mode), "program"))
        writer.add(model.Compilation(0, "0/0", 0, 0, "step", "/home/me/step.py", 5))
        writer.add_all(
            [model.Metric(0, owner, name, json.dumps(value)) for owner, name, value in rows]
        )
    return SessionReader(path)


def runs(recorded: int, *why: str, sizes: int = 1) -> Row:
    value = {
        "graph": "[0/0] inference",
        "sizes": sizes,
        "recorded": recorded,
        "replayed": 4,
        "why_again": [*why],
    }
    return 0, "cudagraph_runs", value


def graph(reader: SessionReader) -> CudaGraph:
    (only,) = cuda_graphs(reader).graphs
    return only


def told(reader: SessionReader) -> list[tuple[str, str]]:
    found = [(finding.severity, finding.text) for finding in find_cuda_graphs(reader)]
    return [*found, *((fact.severity, fact.text) for fact in cuda_graph_facts(reader))]


def test_a_skip_at_run_time_is_told_of_its_graph_with_the_line(tmp_path: Path) -> None:
    skip = {"cudagraph_skip_reason": MUTATED, "graph": "[0/0] inference"}
    rows = (1, "cudagraph_handed_over", HANDED_OVER), (0, "cudagraph_skip", skip)
    with session(tmp_path / "s.fxs", *rows) as reader:
        found = graph(reader)
        assert (found.state, found.reasons[0].text) == ("skipped", "mutated inputs (1 instances)")
        assert told(reader) == [
            (
                "problem",
                "[0/0] inference does not run as a CUDA graph: mutated inputs (1 instances) at step.py:7.",
            )
        ]


def test_operators_that_are_left_out_of_a_recording_are_told_with_their_lines(
    tmp_path: Path,
) -> None:
    left_out: Row = (1, "cudagraph_left_out", {"reason": "cpu ops", "stack": STACK})
    rows = (1, "cudagraph_handed_over", {**HANDED_OVER, "parts": 1}), left_out, runs(1)
    with session(tmp_path / "s.fxs", *rows) as reader:
        found = graph(reader)
        assert (found.state, found.parts, found.recorded) == ("in parts", 1, 1)
        assert found.reasons == (
            CudaGraphReason("cpu ops", "/home/me/step.py", 9, "scale = table.exp().sum()"),
        )
        ((severity, text),) = told(reader)
    assert severity == "problem"
    assert "only in part as CUDA graphs; outside of them: cpu ops at step.py:9" in text


def test_a_copy_of_the_tensor_on_the_cpu_is_no_second_finding(tmp_path: Path) -> None:
    handed: Row = (1, "cudagraph_handed_over", {**HANDED_OVER, "parts": 1})
    on_cpu: Row = (1, "cudagraph_left_out", {"reason": "cpu ops", "stack": STACK})
    copied: Row = (1, "cudagraph_left_out", {"reason": "DeviceCopy ops", "stack": STACK})
    elsewhere: Row = (1, "cudagraph_left_out", {"reason": "DeviceCopy ops", "stack": ""})
    with session(tmp_path / "a.fxs", handed, on_cpu, copied, runs(1)) as reader:
        assert len(list(find_cuda_graphs(reader))) == 1
    with session(tmp_path / "b.fxs", handed, on_cpu, elsewhere, runs(1)) as reader:
        assert len(list(find_cuda_graphs(reader))) == 2


def test_the_inputs_on_the_cpu_are_named(tmp_path: Path) -> None:
    handed: Row = (1, "cudagraph_handed_over", {**HANDED_OVER, "parts": 1})
    on_cpu: Row = (1, "cudagraph_left_out", {"reason": "cpu ops", "stack": ""})
    session(tmp_path / "s.fxs", handed, on_cpu, runs(1)).close()
    with SessionWriter(tmp_path / "s.fxs") as writer:
        nodes = [
            model.Node(1, 0, 0, "arg0_1", "placeholder", "arg0_1", "", ("4",), device="cuda:0"),
            model.Node(2, 0, 1, "factor", "placeholder", "factor", "", (), device="cpu"),
        ]
        writer.add_graph(model.Graph(0, 1, "post_grad", "inference"), nodes, [])
    with SessionReader(tmp_path / "s.fxs") as reader:
        (finding,) = find_cuda_graphs(reader)
    assert finding.evidence == ("Inputs on the CPU: factor.",)


def test_a_graph_of_which_no_part_is_recorded_is_skipped(tmp_path: Path) -> None:
    left_out: Row = (1, "cudagraph_left_out", {"reason": "cpu ops", "stack": STACK})
    rows = (1, "cudagraph_handed_over", {**HANDED_OVER, "parts": 0}), left_out
    with session(tmp_path / "s.fxs", *rows) as reader:
        assert graph(reader).state == "skipped"


def test_a_recording_for_each_size_is_told_and_a_single_one_is_good(tmp_path: Path) -> None:
    handed: Row = (1, "cudagraph_handed_over", HANDED_OVER)
    with session(tmp_path / "a.fxs", handed, runs(12, "another size")) as reader:
        assert (
            "notice",
            "[0/0] inference was recorded 12 times as a CUDA graph (another size).",
        ) in told(reader)
    with session(tmp_path / "b.fxs", handed, runs(1)) as reader:
        assert told(reader) == [
            (
                "good",
                'Recorded as CUDA graphs, as mode="reduce-overhead" asks: [0/0] inference.',
            )
        ]


def test_sizes_that_come_once_are_told_since_torch_records_none_of_them(tmp_path: Path) -> None:
    handed: Row = (1, "cudagraph_handed_over", HANDED_OVER)
    with session(tmp_path / "a.fxs", handed, runs(0, sizes=12)) as reader:
        assert graph(reader).state == "not recorded"
        assert told(reader) == [
            (
                "problem",
                "[0/0] inference was called with 12 sizes, each only once, so none was recorded "
                "as a CUDA graph.",
            )
        ]
    with session(tmp_path / "b.fxs", handed, runs(0)) as reader:
        assert told(reader) == [
            (
                "notice",
                ("[0/0] inference was not called often enough to be recorded as a CUDA graph."),
            )
        ]
    with session(tmp_path / "c.fxs", handed, runs(12, sizes=12)) as reader:
        assert told(reader)[0][1] == (
            "[0/0] inference was recorded 12 times as a CUDA graph, for 12 sizes."
        )


def test_where_nothing_ran_it_is_said_to_be_unknown(tmp_path: Path) -> None:
    with session(tmp_path / "s.fxs") as reader:
        ((severity, text),) = told(reader)
        assert cuda_graphs_of_report(reader) == {
            "asked": 'mode="reduce-overhead"',
            "has_run": False,
            "graphs": [],
        }
    assert severity == "notice"
    assert "not known here" in text


def test_what_a_graph_that_would_run_does_with_its_results(tmp_path: Path) -> None:
    handed_over = (1, "cudagraph_handed_over", HANDED_OVER)
    with session(tmp_path / "s.fxs", handed_over) as reader:
        (finding,) = find_cuda_graphs(reader)
    assert finding.severity == "notice"
    assert finding.text == (
        "[0/0] inference would run as a CUDA graph: each call overwrites the results of the call "
        "before."
    )
    with session(tmp_path / "run.fxs", handed_over, runs(1)) as reader:
        assert not list(find_cuda_graphs(reader))


@pytest.mark.parametrize(
    ("emulated", "is_moved"),
    [
        ({"feeding": "transplant", "puts_everything_there": False}, True),
        ({"feeding": "fake", "puts_everything_there": True}, True),
        ({"feeding": "fake", "puts_everything_there": False}, False),
    ],
)
def test_that_tensors_were_moved_to_the_virtual_gpu_is_said(
    emulated: dict[str, object], is_moved: bool, tmp_path: Path
) -> None:
    path = tmp_path / "s.fxs"
    session(path, (1, "cudagraph_handed_over", HANDED_OVER)).close()
    with SessionWriter(path) as writer:
        writer.set_meta("virtual_gpu", emulated)
    with SessionReader(path) as reader:
        (finding,) = find_cuda_graphs(reader)
    assert ("with all tensors on the GPU" in finding.text) is is_moved
    assert ("were moved to the virtual GPU" in finding.detail) is is_moved


def test_who_did_not_ask_is_told_nothing(tmp_path: Path) -> None:
    with session(tmp_path / "s.fxs", mode="default") as reader:
        assert told(reader) == []
        assert cuda_graphs_of_report(reader) is None


@pytest.mark.parametrize("name", ["cudagraph_post_compile", "cudagraph_partition_post_compile"])
def test_what_torch_does_with_a_graph_is_heard_while_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(output_code, name, lambda *arguments: "done")
    compiled: Any = SimpleNamespace(
        fx_kwargs={"is_backward": False, "is_inference": False, "static_input_idxs": (0,)},
        partition_maps=[1, 2],
        mutated_input_idxs=[0],
        cudagraph_info=None,
    )

    def program(_: object) -> None:
        assert getattr(output_code, name)([], compiled, None, {}, None) == "done"
        cudagraph_utils.log_cudagraph_skip_and_bump_counter(MUTATED)

    reader = record(tmp_path / "s.fxs", program)
    assert not failures(reader)
    found = cuda_graphs(reader).graphs
    assert [(one.name, one.state, one.parts) for one in found] == [
        ("a graph forward", "skipped", 2)
    ]


@pytest.mark.parametrize(
    ("skip", "explained", "remedies"),
    [
        (MUTATED, "copies the inputs of a CUDA graph", 2),
        ("skipping cudagraphs due to cpu device (arg1_1)", "tensors on the CPU", 1),
        ("skipping cudagraphs due to a reason of a later release", "", 0),
    ],
)
def test_a_reason_that_is_known_has_an_explanation_and_remedies(
    skip: str, explained: str, remedies: int, tmp_path: Path
) -> None:
    row: Row = (0, "cudagraph_skip", {"cudagraph_skip_reason": skip, "graph": "[0/0] inference"})
    with session(tmp_path / "s.fxs", (1, "cudagraph_handed_over", HANDED_OVER), row) as reader:
        (finding,) = find_cuda_graphs(reader)
    assert explained in finding.explanation
    assert len(finding.remedies) == remedies


@pytest.mark.parametrize(
    ("with_graphs_s", "says"),
    [
        (154e-6, "A call takes 154 µs with them and 269 µs without (bench)."),
        (269e-6, "The bench shows no gain from them."),
        (None, "was not measured: fx-explorer bench --modes default,reduce-overhead"),
    ],
)
def test_what_a_call_gains_is_the_benchs(
    with_graphs_s: float | None, says: str, tmp_path: Path
) -> None:
    session(tmp_path / "s.fxs", (1, "cudagraph_handed_over", HANDED_OVER), runs(1)).close()
    times = {"uncompiled": 400e-6, "inductor": 269e-6, "inductor reduce-overhead": with_graphs_s}
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for contender, call_s in times.items():
            if call_s is None:
                continue
            cell = model.BenchCell(
                0, contender, "", {}, contender != "uncompiled", state="measured"
            )
            number = writer.add(cell)
            writer.add_all(
                model.BenchRound(0, number, position, call_s * (1 + position / 100_000), 10)
                for position in range(12)
            )
    with SessionReader(tmp_path / "s.fxs") as reader:
        (fact,) = cuda_graph_facts(reader)
    assert says in fact.detail
