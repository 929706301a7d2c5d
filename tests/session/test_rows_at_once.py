"""These tests check that many rows written at once are stored as rows written one by one, and that
what no reader would accept is refused with the name of its field.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.bounds import MAX_FIELD

NODE = model.Node(0, 1, 0, "add", "call_function", "aten.add", "(x, 1)", ("8", "s0"), "f32")

NODES = [
    NODE,
    replace(NODE, name="näme", shape=None, stride=("1", "8")),
    replace(NODE, name="x" * (MAX_FIELD + 10), is_view=True, is_backward=True),
    replace(NODE, name="lone \udc80 surrogate", annotations={"tag": "a"}),
    replace(NODE, target="a long target " * 20, subgraph_names=("a", "b")),
    *[replace(NODE, name=f"add_{number}", position=number) for number in range(20)],
]


@pytest.mark.parametrize("checks_rows", [True, False])
def test_rows_at_once_are_stored_as_one_by_one(checks_rows: bool, tmp_path: Path) -> None:
    stored = []
    for name in ("one.fxs", "all.fxs"):
        with SessionWriter(tmp_path / name, checks_rows=checks_rows) as writer:
            if name == "one.fxs":
                for node in NODES:
                    writer.add(node)
            else:
                writer.add_all(NODES)
        with SessionReader(tmp_path / name) as reader:
            stored.append(reader.rows(model.Node))
    assert stored[0] == stored[1]
    assert [node.id for node in stored[0]] == [*range(1, len(NODES) + 1)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seq_nr": 1 << 70}, "seq_nr"),
        ({"name": 3}, "name"),
        ({"dtype": None}, "dtype"),
    ],
)
def test_a_row_that_no_reader_accepts_is_named(
    changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    bad = replace(NODE, **changes)  # type: ignore[arg-type]
    with SessionWriter(tmp_path / "s.fxs", checks_rows=True) as writer:
        with pytest.raises(ValueError, match=words):
            writer.add_all([*NODES, bad])
        assert writer.count(model.Node) == 0
