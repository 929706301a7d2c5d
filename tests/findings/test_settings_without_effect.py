"""These tests check the finding about settings that do nothing in a program."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fx_explorer import model
from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader, SessionWriter

Written = Callable[[Callable[[SessionWriter], object]], SessionReader]


def without_effect(reader: SessionReader) -> list[Finding]:
    return [row for row in findings(reader) if row.kind == "setting without effect"]


def test_cuda_graphs_on_a_cpu(captured, reader) -> None:
    (finding,) = without_effect(reader(captured("mlp", mode="reduce-overhead")))
    assert finding.text == 'mode="reduce-overhead" does nothing here: no graph is on a GPU.'
    assert finding.severity == "notice"


@pytest.mark.parametrize(("trains", "number"), [(True, 1), (False, 0)])
def test_freezing(trains: bool, number: int, captured, reader) -> None:
    session = captured("mlp", "--option", "freezing=True", train=trains)
    rows = without_effect(reader(session))
    assert len(rows) == number
    if rows:
        assert "every graph is compiled for training" in rows[0].text


@pytest.mark.parametrize(
    ("name", "value", "device", "number"),
    [
        ("compile.mode", "reduce-overhead", "cpu", 1),
        ("compile.options", {"triton.cudagraphs": True}, "cpu", 1),
        ("compile.options", {"triton.cudagraphs": False}, "cpu", 0),
        ("compile.mode", "reduce-overhead", "cuda:0", 0),
        ("compile.mode", "max-autotune", "cpu", 0),
        ("compile.mode", "default", "cpu", 0),
    ],
)
def test_what_asks_for_cuda_graphs_only(
    name: str, value: object, device: str, number: int, written: Written
) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.OptionInForce(0, name, json.dumps(value), "program"))
        writer.add(model.Compilation(0, "0/0", 0, 0, "step", "/home/me/step.py", 5))
        writer.add(model.Graph(0, 1, "post_grad", "inference"))
        writer.add(model.Node(0, 1, 0, "add", "call_function", "aten.add", "", device=device))

    assert len(without_effect(written(write))) == number
