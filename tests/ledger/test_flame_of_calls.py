"""These tests check the flame chart of real calls: it has every step once, and all times add up."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from fx_explorer.analysis.flame import flame_rows
from fx_explorer.cli import main
from fx_explorer.instruments.ledger.figures import LedgerFigures, ledger_figures
from fx_explorer.instruments.ledger.flame_chart import flame
from fx_explorer.instruments.ledger.ledger_rows import graph_of
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import with_others
from tests.ledger.conftest import BREAK, MeasuredLedger

CALLS = dict(
    with_others(
        [("a training step with a break", ("",))],
        [("inference", ("mlp", "--no-train")), ("many breaks", ("graph_breaks",))],
    )
)


@pytest.fixture(params=CALLS)
def found(
    request: pytest.FixtureRequest, program: Path, measured: MeasuredLedger, reader: OpenedReader
) -> LedgerFigures:
    target, *options = CALLS[request.param]
    figures = ledger_figures(reader(measured(target or program, *options)))
    assert figures is not None
    return figures


def test_children_fill_their_parent_and_lie_within_it(found: LedgerFigures) -> None:
    root = flame(found)
    assert root.began_s == 0
    assert root.duration_s == pytest.approx(max(found.call.call_s, found.accounted_s))
    for frame in root.frames():
        if not frame.children:
            continue
        edges = [frame.began_s, *(child.ended_s for child in frame.children)]
        assert [child.began_s for child in frame.children] == edges[:-1]
        assert edges[-1] == frame.ended_s
        assert all(child.depth == frame.depth + 1 for child in frame.children)
        assert sum(child.duration_s for child in frame.children) <= frame.duration_s * (1 + 1e-9)


def test_every_step_of_the_ledger_is_in_it_once_and_as_long_as_it_takes(
    found: LedgerFigures,
) -> None:
    leaves = [
        frame for frame in flame(found).frames() if not frame.children and frame.kind != "rest"
    ]
    assert [list(leaf.steps) for leaf in leaves] == [
        [number] for number in range(len(found.entries))
    ]
    for leaf, entry in zip(leaves, found.entries, strict=True):
        assert leaf.kind == entry.step.kind
        assert leaf.duration_s == pytest.approx(entry.step.host_s, abs=1e-12)
        assert leaf.began_s == pytest.approx(entry.began_s, abs=1e-12)


def test_generated_code_lies_in_the_graph_that_its_steps_name(found: LedgerFigures) -> None:
    for frame in flame(found).frames():
        if frame.kind == "code":
            assert {graph_of(found.entries[number].step) for number in frame.steps} == {frame.name}


def test_the_rest_of_the_users_function_lies_within_it(
    figures: LedgerFigures, program: Path
) -> None:
    frames = list(flame(figures).frames())
    outer, inner = [frame for frame in frames if frame.kind == "function"]
    assert (outer.name, inner.name) == ("forward net.py:10", f"rest of forward after line {BREAK}")
    assert inner in list(outer.frames())
    assert outer.line == (str(program), 10)
    assert [frame.name for frame in frames if frame.kind == "part"] == ["forward", "backward"]


def test_the_command_draws_it_in_the_terminal_and_as_a_picture(
    session: Path,
    figures: LedgerFigures,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    picture = tmp_path / "call.svg"
    assert main(["ledger", str(session), "--flame", "--svg", str(picture)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("A training step of Net takes")
    chart = told[told.index("▏a training step of Net") :].splitlines()
    assert max(map(len, chart)) <= 100
    for line, blocks in zip(
        chart, flame_rows(flame(figures), 100), strict=False
    ):  # below the rows is the axis
        for block in blocks:
            if (
                block.cells > len(block.names[0]) + 1
            ):  # how wide it is depends on what the call took
                assert line[block.first :].startswith(f"▏{block.names[0]}")
    titles = list(ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}title"))
    assert len(titles) == len(list(flame(figures).frames()))
    assert main(["ledger", str(session), "--format", "json", "--svg", str(picture)]) == 0, (
        "a picture of ours is replaced"
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--flame", "--format", "json"], "--flame draws in text, not in json"),
        (["--flame", "--format", "markdown"], "--flame draws in text, not in markdown"),
        (["--svg", "{folder}"], "cannot hold a picture"),
        (["--svg", "{folder}/none/call.svg"], "none"),
        (["--svg", "{notes}"], "--force"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_told(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    given = [option.format(folder=tmp_path, notes=notes) for option in options]
    assert main(["ledger", str(session), *given]) == 2
    out, err = capsys.readouterr()
    assert told in err
    assert out == ""
    assert notes.read_text() == "mine"


def test_force_replaces_a_file_and_a_session_without_a_ledger_writes_none(
    session: Path, captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, picture = tmp_path / "notes.txt", tmp_path / "call.svg"
    notes.write_text("mine")
    assert main(["ledger", str(session), "--svg", str(notes), "--force"]) == 0
    assert notes.read_text().startswith("<svg ")
    assert main(["ledger", str(captured("mlp")), "--flame", "--svg", str(picture)]) == 2
    assert "has no ledger" in capsys.readouterr().err
    assert not picture.exists()


def test_a_session_and_a_picture_of_one_name_are_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = str(tmp_path / "same.fxs")
    assert main(["ledger", "no_such.py", "-o", both, "--svg", both, "--force"]) == 2
    assert "would overwrite the session" in capsys.readouterr().err
