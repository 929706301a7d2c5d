"""These tests check that the record of each front end is its result in a bare process, for six
models; ``make exhaustive`` has twelve.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.capture.recorder import recording
from fx_explorer.instruments.front_ends.measure import keep, record_front_end
from fx_explorer.model import FRONT_ENDS, CaptureRequest, FrontEnd, Graph, Node
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import with_others
from tests.front_ends.models import NAMES, SAMPLE, made

ROOT = Path(__file__).parents[2]

MODELS = with_others(SAMPLE, [name for name in NAMES if name not in SAMPLE])

MADE = {"symbolic_trace": 3, "export": 5, "make_fx": 4}
"""How many of the six each front end makes a graph of in torch 2.13."""


@pytest.fixture(scope="module")
def bare() -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.front_ends.models", *MODELS]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def recorded(path: Path, name: str) -> dict[str, Any]:
    """Return the session's record of each front end, in the form of ``models.direct``."""
    model, args, kwargs = made(name)
    request = CaptureRequest("test", str(path))
    kept = keep(Target(name, model, Arguments(args, kwargs)), [])
    with SessionWriter(path) as writer, recording(writer, request, lambda notice: None) as state:
        for one in FRONT_ENDS:
            record_front_end(state, request, one, kept)
    with SessionReader(path) as reader:
        return {row.name: of_row(reader, row) for row in reader.rows(FrontEnd)}


def of_row(reader: SessionReader, row: FrontEnd) -> dict[str, Any]:
    if not row.graph:
        return {"error": row.error.partition(":")[0]}
    nodes = reader.nodes(reader.get(Graph, row.graph))
    return {
        "nodes": len(nodes),
        "operators": dict(Counter(f"{node.op} {operator(node)}" for node in nodes)),
    }


def operator(node: Node) -> str:
    """The target as ``models.target`` gives it: the last word of a function's name, the operator of
    an overload.
    """
    if node.op != "call_function":
        return node.target
    words = node.target.split(".")
    return words[1] if words[0] in ("aten", "prims", "higher_order") else words[-1]


@pytest.mark.parametrize("name", MODELS)
def test_the_recorded_graphs_have_the_nodes_that_front_ends_make_in_a_bare_process(
    name: str, bare: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    found = recorded(tmp_path / "s.fxs", name)
    assert found == bare[name]


def test_the_front_ends_make_graphs_and_refuse_both(bare: dict[str, dict[str, Any]]) -> None:
    count = {one: sum("nodes" in bare[name][one] for name in MODELS) for one in FRONT_ENDS}
    assert all(count[one] >= MADE[one] // 2 for one in FRONT_ENDS), count
    assert any("error" in one for model in bare.values() for one in model.values())
