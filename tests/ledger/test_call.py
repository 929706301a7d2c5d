"""These tests compare ledgers of real programs with torch's own generated code, shapes, and a
second measurement.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from fx_explorer.cli import main
from fx_explorer.instruments.ledger.figures import LedgerFigures, ledger_figures, line_times
from fx_explorer.instruments.ledger.trial import add_ledger, ledger_in
from fx_explorer.model import Artifact, Compilation, LedgerCall
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from tests.conftest import ROOT, Captured, OpenedReader
from tests.ledger.conftest import BREAK


def test_every_call_of_the_generated_wrappers_is_a_step_on_its_line(
    session: Path, reader: OpenedReader, figures: LedgerFigures
) -> None:
    opened = reader(session)
    names = {row.id: row.name for row in opened.rows(Compilation)}
    expected = set()
    for code in opened.rows(Artifact, kind="output_code"):
        for number, line in enumerate(opened.text(code.text).splitlines(), start=1):
            if re.match(
                r" {8}(\w+ = )?(extern_kernels\.\w+|cpp_fused\w+|torch\.ops\.[\w.]+)\(", line
            ):
                expected.add((names[code.compilation], code.direction, number))
    told = [entry.step for entry in figures.entries if entry.step.kind in ("kernel", "library")]
    assert {(step.compilation, step.direction, step.line) for step in told} == expected
    assert len(told) == len(expected) > 4
    assert {step.kind for step in told if step.name.startswith("cpp_fused")} == {"kernel"}


def test_steps_stand_in_the_order_of_the_call(figures: LedgerFigures) -> None:
    kinds = [entry.step.kind for entry in figures.entries]
    assert kinds[0] == "gradients"
    assert (
        kinds.index("entry")
        < kinds.index("guards")
        < kinds.index("wrapper")
        < kinds.index("break")
        < kinds.index("loss")
    )
    assert kinds.index("loss") < kinds.index("autograd")
    directions = [entry.step.direction for entry in figures.entries if entry.step.line]
    assert directions == sorted(directions, reverse=True), "forward, then backward"
    backward = [
        entry.step.compilation
        for entry in figures.entries
        if entry.step.direction == "backward" and entry.step.line
    ]
    assert list(dict.fromkeys(backward)) == ["1/0", "0/0"], "the last graph's backward runs first"


def test_the_break_is_told_with_its_line(figures: LedgerFigures, program: Path) -> None:
    found = [entry for entry in figures.entries if entry.step.kind == "break"]
    assert {(entry.step.file, entry.step.user_line) for entry in found} == {(str(program), BREAK)}
    assert all(entry.step.host_s > 0 for entry in found)


def test_products_are_counted_as_their_shapes_say(figures: LedgerFigures) -> None:
    steps = [entry.step for entry in figures.entries if entry.step.name == "extern_kernels.addmm"]
    forward = [step for step in steps if step.direction == "forward"]
    assert [step.flops for step in forward] == [2 * 4 * 16 * 32, 2 * 4 * 32 * 8]
    assert [step.moved_bytes for step in forward] == [
        4 * (32 + 4 * 16 + 16 * 32 + 4 * 32),
        4 * (8 + 4 * 32 + 32 * 8 + 4 * 8),
    ]


def test_lines_of_both_sides_are_the_users_own(figures: LedgerFigures, program: Path) -> None:
    compiled = {
        line.line
        for entry in figures.entries
        for line, _ in entry.lines
        if line.file == str(program)
    }
    uncompiled = {row.line for row in figures.operators if row.file == str(program)}
    assert {11, 13} <= compiled
    assert {11, 13} <= uncompiled
    named = {(row.name, row.direction, row.line) for row in figures.operators}
    assert {("aten::linear", "forward", 11), ("aten::sigmoid", "forward", 13)} <= named
    assert {("AddmmBackward0", "backward", 13), ("ReluBackward0", "backward", 11)} <= named


def test_what_was_measured_is_there_and_the_steps_are_about_the_call(
    figures: LedgerFigures,
) -> None:
    call = figures.call
    assert call.trains
    assert call.uncompiled_s > 0 < call.unguarded_s
    assert len(call.rounds_s) == len(call.uncompiled_rounds_s) == len(call.unguarded_rounds_s)
    assert len(call.rounds_s) >= 6  # as many as are measured however busy the machine is
    assert figures.of_kind("guards") > 0
    assert figures.accounted_s > 0 < call.call_s
    assert call.notes == ()
    assert set(figures.ceilings) >= {"memory", "fp32"}


def test_a_ledger_can_be_added_to_a_session_that_was_only_inspected(
    program: Path, session: Path, captured: Captured, reader: OpenedReader, tmp_path: Path
) -> None:
    inspected = shutil.copy(captured(program), tmp_path)
    ledger = ledger_in(reader(session))
    assert ledger is not None
    add_ledger(inspected, ledger)
    opened = reader(inspected)
    assert opened.count(LedgerCall) == 1
    found = ledger_figures(opened)
    assert found is not None
    kernels = [entry for entry in found.entries if entry.step.kind in ("kernel", "library")]
    assert all(entry.place is not None for entry in kernels)
    assert {"net.py:11", "net.py:13"} <= {
        in_file(line.file, line.line) for entry in kernels for line, _ in entry.lines
    }


def test_a_session_tells_its_ledger_again_in_every_format(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("text", "markdown", "csv", "json"):
        assert main(["ledger", str(session), "--format", name]) == 0, name
        assert re.search(r"net.py(:|\",\s+\"line\": )11\b", capsys.readouterr().out), name


def test_a_report_has_the_ledger(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(session), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["ledger"]
    jsonschema.validate(
        told,
        json.loads((ROOT / "docs/reference/report-schema.json").read_text())["properties"][
            "ledger"
        ],
    )
    assert told["accounted_s"] == pytest.approx(sum(step["host_s"] for step in told["steps"]))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["mlp", "--no-build"], "kernels that are not built cannot be timed"),
        (["captured", "--try"], "--try works on targets"),
        (["captured"], "has no ledger; make one with: fx-explorer ledger TARGET"),
    ],
)
def test_what_cannot_be_told_is_refused_with_what_to_do(
    captured: Captured, capsys: pytest.CaptureFixture[str], given: list[str], told: str
) -> None:
    target = (
        str(captured("mlp")) if given[0] == "captured" else str(ROOT / "sample_models" / "mlp.py")
    )
    assert main(["ledger", target, *given[1:]]) == 2
    assert told in capsys.readouterr().err


def test_a_line_that_may_be_in_kernels_of_unknown_lines_has_no_compiled_time(
    figures: LedgerFigures,
) -> None:
    kinds = ("kernel", "library")
    entries = tuple(
        replace(one, lines=()) if one.step.kind in kinds else one for one in figures.entries
    )
    kernels_s = sum(one.seconds for one in entries if one.step.kind in kinds)
    blind = replace(figures, entries=entries, call=replace(figures.call, call_s=2 * kernels_s))
    known = {line for one in entries for line, _ in one.lines}
    told = [one for one in line_times(blind).lines if one.line not in known]
    assert told
    assert all(one.compiled_s == -1 and one.gained_s == 0 for one in told)


def test_a_call_that_took_no_time_is_no_ledger(session: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.fxs"
    shutil.copy(session, damaged)
    with sqlite3.connect(damaged) as connection:
        connection.execute("UPDATE ledger_call SET call_s = 0")
    with SessionReader(damaged) as opened:
        assert ledger_figures(opened) is None
