"""These tests run ``fx-explorer graph X [NAME]``."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.analysis.graph_texts import split_arguments
from fx_explorer.cli import main
from tests.sessions import Hand, write_training_step


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    return write_training_step(tmp_path / "step.fxs")


def test_the_graphs_are_listed_with_their_numbers(
    hand: Hand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(hand.path)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.partition("]")[2].partition("  ")[0].strip() for line in listed] == [
        "Dynamo graph",
        "Joint graph",
        "Forward graph",
        "Backward graph",
        "Forward · post-grad",
        "Backward · post-grad",
    ]


@pytest.mark.parametrize("name", ["backward", "Backward graph", "[0/0] backward graph"])
def test_a_graph_is_named_by_its_stage_or_title(
    hand: Hand, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["graph", str(hand.path), name]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# Backward graph of [0/0]")
    compile(printed, "graph.py", "exec")


def test_a_graph_that_is_not_there_is_told_with_those_that_are(
    hand: Hand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(hand.path), "sideways"]) == 2
    assert (
        "no graph is called 'sideways'; there are:\n   1  [0/0] Dynamo graph"
        in capsys.readouterr().err
    )


def test_words_that_fit_several_graphs_ask_for_a_number(
    hand: Hand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(hand.path), "post_grad"]) == 2
    told = capsys.readouterr().err
    assert "matches 2 graphs" in told
    assert "Forward · post-grad" in told


@pytest.mark.parametrize("number", ["0", "99"])
def test_a_number_that_no_graph_has_fits_no_word_of_a_title(
    hand: Hand, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    """Every title has a 0: that of its compilation, [0/0]."""
    assert main(["graph", str(hand.path), number]) == 2
    assert f"no graph is called '{number}'; there are:" in capsys.readouterr().err


def test_the_file_is_written_and_a_file_of_the_users_is_not_replaced(
    hand: Hand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "g.py"
    for _ in range(2):  # the second time it replaces its own
        assert main(["graph", str(hand.path), "dynamo", "--format", "script", "-o", str(file)]) == 0
    compile(file.read_text(), str(file), "exec")
    file.write_text("mine = 1\n")
    assert main(["graph", str(hand.path), "dynamo", "--format", "script", "-o", str(file)]) == 2
    assert file.read_text() == "mine = 1\n"
    assert main(["graph", str(hand.path), "-o", str(file)]) == 2
    assert "give its NAME" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_node(hand: Hand, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(hand.path), "dynamo", "--format", "table"]) == 0
    _, _, header, _, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["opcode", "name", "target", "args", "kwargs", "value"]
    assert len(rows) == hand.graphs["dynamo"].node_count


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("x, 0.5", "(x, 0.5)", "{}"),
        ("x", "(x,)", "{}"),
        ("", "()", "{}"),
        ("x, dtype = torch.float32", "(x,)", "{'dtype': torch.float32}"),
        (
            "x, device = cpu, pin_memory = False",
            "(x,)",
            "{'device': device(type='cpu'), 'pin_memory': False}",
        ),
        (
            "x, cuda:1, dtype = torch.int8",
            "(x, device(type='cuda', index=1))",
            "{'dtype': torch.int8}",
        ),
        ("x, 'cuda:1'", "(x, 'cuda:1')", "{}"),
        (
            "<OpOverload(op='aten.add', overload='Tensor')>, x",
            "(<OpOverload(op='aten.add', overload='Tensor')>, x)",
            "{}",
        ),
        ("<what>, 1 …", "(<what>, 1 …)", "{}"),
    ],
)
def test_arguments_are_split_as_print_tabular_splits_them(
    text: str, args: str, kwargs: str
) -> None:
    assert split_arguments(text) == (args, kwargs)
