"""These tests check that none of torch's own names appears where the user has a name: all views of
five models are walked, and the output of commands.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.documents import Place, graph_document
from fx_explorer.instruments.memory.saved_values import saved_values, user_names
from fx_explorer.overview.outline import outline
from fx_explorer.overview.overview import overview
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.report.overview_text import overview_text
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.graph_rows import GraphRows
from fx_explorer.tui.content.shown_lines import EVERY_LINE, folded_inputs
from tests.exhaustive import with_others
from tests.tui.conftest import OpenApp

MODELS = Path(__file__).parents[1] / "report" / "models"

LOGS = Path(__file__).parents[1] / "data"

MODEL_NAMES = with_others(["gpt2"], ["llama", "vit", "bert", "t5"])
"""Those of tests/report/test_models.py."""

OTHERS = ["recompiles", "dynamic_shapes", "graph_breaks"]
"""Samples that have what the models lack: versions, sizes that may change, numbers, and rests of
functions.
"""

TORCHS_OWN = re.compile(
    r"primals_|tangents_|___|\b[LG]\[['\"]|\bgetitem_\d|torch_dynamo_resume|[lLgG]_(?:self|model)_|<lambda>"
    r"|(?<![\w.\[/])(?:s|u|zf|zuf|zs)\d+\b(?!/)"
)

TORCHS_WORDS = re.compile(r"^(?:torch checks|torch's own|torch's name)", re.MULTILINE)
"""What stands below such a line is quoted of torch, and said to be."""

TORCHS_COLUMNS = ("in torch",)
"""Columns that are there to tell torch's name, dim, beside the user's."""

PRINTED = {
    "report": ("--format", "text"),
    "memory": (),
    "support": (),
    "graph": (),
    "check": (
        "--max-graph-breaks",
        "0",
        "--max-recompiles",
        "0",
        "--max-guards",
        "0",
        "--max-break-sites",
        "0",
    ),
}
"""Command that reads a session → its options."""

Captured = Callable[..., Path]


def said(reader: SessionReader) -> Iterator[tuple[str, str]]:
    """All texts of all views but graph listings, with the view that says each."""
    for view, make in TABLES.items():
        table = make(reader)
        yield from ((view, text) for text in (table.shows, table.notice, table.empty))
        yield from ((f"{view}, versions", function) for function in table.versions.values())
        for row in table.rows:
            cells = zip(table.columns, row.cells, strict=False)
            yield from (
                (f"{view}, {column.title}", cell)
                for column, cell in cells
                if column.title not in TORCHS_COLUMNS
            )
            if row.detail:
                yield f"{view}, detail", TORCHS_WORDS.split(row.detail().text)[0]
    yield from (("overview", f"{fact.text} {fact.detail}") for fact in overview(reader))
    yield from (("outline", f"{entry.title} {entry.detail}") for entry in outline(reader))
    yield "printed overview", overview_text(reader)


@pytest.mark.parametrize("name", MODEL_NAMES + OTHERS)
def test_no_view_shows_a_name_of_torchs_own(captured: Captured, name: str) -> None:
    with SessionReader(captured(target(name))) as reader:
        found = [(view, text) for view, text in said(reader) if TORCHS_OWN.search(text)]
    assert found == []


@pytest.mark.parametrize(
    "log", sorted((LOGS / "torch_trace").glob("*.gz")), ids=lambda log: log.name
)
def test_no_view_of_a_log_shows_a_name_of_torchs_own(log: Path, tmp_path: Path) -> None:
    read_log(log, tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        found = [(view, text) for view, text in said(reader) if TORCHS_OWN.search(text)]
    assert found == []


def target(name: str) -> Path | str:
    return MODELS / f"{name}.py" if name in MODEL_NAMES else name


@pytest.mark.parametrize("name", MODEL_NAMES + OTHERS)
def test_no_command_prints_a_name_of_torchs_own(
    captured: Captured, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = captured(target(name))
    found = []
    for command, options in PRINTED.items():
        cli.main([command, str(session), *options])
        printed = capsys.readouterr()
        found += [
            (command, line)
            for line in (printed.out + printed.err).splitlines()
            if TORCHS_OWN.search(line)
        ]
    assert found == []


def test_the_test_knows_names_of_torchs_own() -> None:
    for name in (
        "primals_3",
        "s23",
        "8*s23",
        "zf2 > 0",
        "u0",
        "___stack0",
        "L['x']",
        "getitem_4",
        "<lambda>",
    ):
        assert TORCHS_OWN.search(name), name
    for name in (
        "f32[4, 64]",
        "layers.0.s1",
        "input_ids.size(1)",
        "sm_80",
        "[0/0]",
        "sigmoid_2",
        "u_net",
    ):
        assert not TORCHS_OWN.search(name), name


def built(name: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(f"models_of_names_{name}", MODELS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_model()


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_saved_parameters_have_the_names_of_named_parameters(captured: Captured, name: str) -> None:
    known = {parameter for parameter, _ in built(name).named_parameters(remove_duplicate=False)}
    with SessionReader(captured(MODELS / f"{name}.py")) as reader:
        values = saved_values(reader)
        names = user_names(reader, values)
    parameters = [names[value.saved.id] for value in values if value.saved.kind == "parameter"]
    assert parameters
    assert [one for one in parameters if one not in known] == []


def test_the_inputs_of_a_graph_are_folded_to_a_row_that_counts_them(captured: Captured) -> None:
    module = built("gpt2")
    with SessionReader(captured(MODELS / "gpt2.py")) as reader:
        graph = next(
            one for one in reader.rows(model.Graph, stage="forward") if one.node_count > 100
        )
        document = graph_document(graph, "")
        folded = folded_inputs(reader, document)
        rows = GraphRows(reader, document, folded)
        first, second = rows.page(0, 2)
        nodes = reader.nodes(graph)
        inputs = sum(node.op == "placeholder" for node in nodes)
        shown = [row[0] for row in GraphRows(reader, document, EVERY_LINE).page(0, inputs)]
    assert len(rows) == len(nodes) - inputs + 1
    # The weight of the embedding is that of lm_head: named_parameters has it once, and so has the
    # graph.
    assert first[0] == ("▸ inputs", "muted")
    parameters = len(list(module.parameters()))
    assert first[1] == (f"{parameters} parameters and 1 input", "muted")
    assert second[0] == (nodes[inputs].name, "strong")
    assert ("transformer.wte.weight", "strong") in shown
    assert ("input_ids", "strong") in shown


async def test_enter_opens_the_folded_inputs(captured: Captured, open_app: OpenApp) -> None:
    async with open_app(captured(MODELS / "gpt2.py")) as driver:
        with SessionReader(captured(MODELS / "gpt2.py")) as reader:
            graph = next(
                one for one in reader.rows(model.Graph, stage="forward") if one.node_count > 100
            )
            document = graph_document(graph, "")
        await driver.press("2")
        pane = await driver.explorer.linked_selection.go(Place(document, graph.node_count - 1))
        driver.explorer.linked.activate(pane)
        await driver.press("g")
        assert "▸ " in driver.screen
        assert "wte.weight" not in driver.screen
        await driver.press("enter")
        assert pane.body.line_count == graph.node_count
        assert "wte.weight" in driver.screen
        await driver.press("j")
        assert " transformer.wte.weight · primals_" in driver.screen
