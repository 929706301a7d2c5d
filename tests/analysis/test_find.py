"""These tests check the search in a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.overview.find import find
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written, write_large


def test_every_kind_of_thing_is_found(step: SessionReader) -> None:
    kinds = {match.kind for match in find(step, "gelu")}
    assert kinds == {"node", "line"}
    assert [m.text for m in find(step, "kernel") if m.kind == "kernel"] == [
        "kernel",
        "extern_kernels.addmm",
        "extern_kernels.addmm",
    ]


def test_the_very_name_comes_before_names_that_begin_so_and_these_before_the_rest(
    step: SessionReader,
) -> None:
    found = [match.text for match in find(step, "gelu") if match.kind == "node"]
    assert found == ["gelu"] * 4 + ["gelu_backward"] * 3
    ranks = [match.rank for match in find(step, "addmm")]
    assert ranks == sorted(ranks)


def test_a_node_is_found_by_its_arguments_after_all_names(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.Graph(1, 0, "dynamo", "", "", first_node=1, node_count=3))
        for position, (name, target, arguments) in enumerate(
            (
                ("half", "to", "x, torch.float16"),
                ("float16", "mul", "half, 2"),
                ("single", "to", "float16, torch.float32"),
            )
        ):
            writer.add(model.Node(0, 1, position, name, "call_method", target, arguments))

    matches = find(written(write), "float16")
    assert [match.text for match in matches] == ["float16", "half", "single"]
    assert matches[1].detail.endswith(" · to(x, torch.float16)")
    assert [match.text for match in find(written(write), "to torch.float16")] == ["half"]


def test_case_does_not_matter(step: SessionReader) -> None:
    assert {m.text for m in find(step, "GELU")} == {m.text for m in find(step, "gelu")}


def test_every_word_must_occur(step: SessionReader) -> None:
    assert {m.text for m in find(step, "mm aten") if m.kind == "node"} == {"addmm", "addmm_1", "mm"}
    assert find(step, "mm nothing") == []


@pytest.mark.parametrize("typed", ["", "   "])
def test_nothing_typed_finds_nothing(step: SessionReader, typed: str) -> None:
    assert find(step, typed) == []


@pytest.mark.parametrize("typed", ["%", "_", "\\", "'", "%%%"])
def test_signs_that_sql_knows_are_just_signs(step: SessionReader, typed: str) -> None:
    assert all(typed in m.text + m.detail for m in find(step, typed))


def test_a_break_is_found_by_its_line(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, "/p/m.py", writer.text("print(x)\n"), 1))
        writer.add(model.GraphBreak(0, 1, "GB0059", "builtin", "", (), "/p/m.py", 1, "print(x)"))

    found = find(written(write), "print")
    assert [(m.kind, m.detail) for m in found] == [("break", "m.py:1"), ("line", "m.py:1")]


def test_matches_are_limited(tmp_path: Path) -> None:
    hand = write_large(tmp_path / "large.fxs", 400)
    with SessionReader(hand.path) as reader:
        assert len(find(reader, "mul", limit=50)) == 50
        assert find(reader, "mul_399", limit=50)[0].text == "mul_399"


def write_two_files(writer: SessionWriter) -> None:
    writer.add(model.SourceFile(0, "/p/m.py", writer.text("import torch\n\ny = m(x)\n"), 3))
    writer.add(model.SourceFile(0, "/q/am.py", writer.text("pass\n"), 1))


@pytest.mark.parametrize(
    ("typed", "text", "line"),
    [
        ("m.py:3", "y = m(x)", 2),
        (" M.py:2 ", "m.py:2", 1),
        ("m.py", "import torch", 0),
        ("m.py:", "import torch", 0),
    ],
)
def test_a_line_is_found_by_the_place_that_the_screen_writes(
    written: Written, typed: str, text: str, line: int
) -> None:
    match = find(written(write_two_files), typed)[0]
    assert (match.kind, match.text, match.place.document.title, match.place.line) == (
        "line",
        text,
        "m.py",
        line,
    )


@pytest.mark.parametrize("typed", ["m.py:4", "m.py:0", "other.py:1", "m.py:" + "9" * 5_000])
def test_a_place_that_is_not_there_finds_nothing(written: Written, typed: str) -> None:
    assert find(written(write_two_files), typed) == []


def test_matches_of_one_name_can_be_told_apart(step: SessionReader) -> None:
    """Also by their beginnings, which are all that a narrow screen shows."""
    rows = [(match.text, match.detail[:36]) for match in find(step, "addmm")]
    assert len(rows) == 8
    assert len(rows) == len(set(rows))


def test_a_node_and_a_kernel_are_found_with_graph_line_and_size(step: SessionReader) -> None:
    details = {match.kind: match.detail for match in find(step, "addmm")}
    assert details["node"].startswith("[0/0] ")
    assert " · mlp.py:8 · f32[4, 8] · aten.addmm" in details["node"]
    assert details["kernel"] == "#3 · [0/0] forward · mlp.py:8"
