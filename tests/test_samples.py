"""These tests check that every sample can be captured and reported, and shows what its first line
says it shows.
"""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.session import SessionReader

ROOT = Path(__file__).parents[1]
SAMPLES = sorted(path.stem for path in (ROOT / "sample_models").glob("*.py"))

Captured = Callable[..., Path]
OpenedReader = Callable[[Path], SessionReader]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_says_in_its_first_line_what_it_shows(sample: str) -> None:
    lines = (ROOT / "sample_models" / f"{sample}.py").read_text().splitlines()
    assert ast.literal_eval(lines[0]).strip()
    assert len(lines) <= 100


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_captured_sample_can_be_reported(
    sample: str, captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(captured(sample)), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "fx-explorer/report/1"
    assert report["totals"]["compilations"] >= 1
    assert report["totals"]["kernels"] >= 1


@pytest.mark.parametrize("sample", SAMPLES)
def test_nothing_fails_while_a_sample_is_recorded(
    sample: str, captured: Captured, reader: OpenedReader
) -> None:
    assert reader(captured(sample)).rows(model.Failure) == []


@pytest.mark.parametrize("sample", ["precompile_by_hand", "precompile"])
def test_what_is_compiled_ahead_is_one_compilation_of_the_users_function(
    sample: str, captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured(sample))
    (compilation,) = session.rows(model.Compilation)
    assert compilation.function == "Classifier.forward"
    assert Path(compilation.file).stem == sample
    assert compilation.backend == "inductor"
    assert session.count(model.Guard)
    assert not session.count(model.SupportReport)
    stages = {(graph.stage, graph.direction) for graph in session.rows(model.Graph)}
    assert {("dynamo", ""), ("post_grad", "forward"), ("post_grad", "backward")} <= stages
    assert {kernel.direction for kernel in session.rows(model.Kernel)} == {"forward", "backward"}


def test_graph_breaks_shows_five_kinds_at_five_lines(
    captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured("graph_breaks"))
    breaks = session.rows(model.GraphBreak)
    source = (ROOT / "sample_models" / "graph_breaks.py").read_text().splitlines()
    marked = {number for number, text in enumerate(source, 1) if "  # " in text}
    assert {found.line for found in breaks} == marked
    assert len({found.registry_id for found in breaks}) == 5
    counted = sum(session.meta("counters")["graph_break"].values())
    # torch does not count a branch on data (GB0170): symbolic_convert.py logs it, and goes on
    # without a restart
    assert counted == len([found for found in breaks if found.registry_id != "GB0170"])


def test_recompiles_recompiles_five_times_and_says_why(
    captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured("recompiles"))
    assert session.meta("counters")["frames"]["ok"] == 6
    reasons = [found.reason for found in session.rows(model.Recompile)]
    for expected in ("size mismatch", "power == 2", "centred == False", "dtype mismatch", "scale"):
        assert any(expected in reason for reason in reasons), expected


def test_dynamic_shapes_has_a_symbol_for_batch_and_length(
    captured: Captured, reader: OpenedReader
) -> None:
    sources = {symbol.source for symbol in reader(captured("dynamic_shapes")).rows(model.Symbol)}
    assert {"L['values'].size()[0]", "L['values'].size()[1]"} <= sources


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_regions_are_found_in_both_directions(
    direction: str, captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured("regions"))
    (graph,) = session.rows(model.Graph, stage="post_grad", direction=direction)
    annotations = [
        node.annotations["compile_with_inductor"]
        for node in session.nodes(graph)
        if node.annotations
    ]
    names = {found["inductor_region"] for found in annotations if isinstance(found, dict)}
    assert names == {"attention", "mlp"}


def test_convnet_updates_running_statistics(captured: Captured, reader: OpenedReader) -> None:
    session = reader(captured("convnet"))
    (forward,) = session.rows(model.Graph, stage="post_grad", direction="forward")
    assert any("copy_" in node.target for node in session.nodes(forward))


def test_the_script_behaves_as_it_does_alone(
    captured: Captured, reader: OpenedReader, bare_python: str
) -> None:
    script = str(ROOT / "sample_models" / "script.py")
    alone = subprocess.run(
        [bare_python, script], capture_output=True, text=True, timeout=300, check=True
    )
    session = reader(captured("script"))
    printed = [line.text for line in session.rows(model.ConsoleLine, stream="stdout")]
    assert printed == alone.stdout.splitlines()
