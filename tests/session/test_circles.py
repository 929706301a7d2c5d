"""These tests check rows that refer to one another in a circle, and texts that cannot be compared
in time: found by fuzzing, fixed here.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import lowerings
from fx_explorer.analysis.diff import (
    CUT_IN_WORDS,
    MOST_LINES,
    describe_difference,
    graph_diff,
    text_diff,
)
from fx_explorer.analysis.kernel_lines import KernelFile, llvm_lines
from fx_explorer.analysis.lineage import (
    documents_of_variant,
    is_through,
    kernels_of_variant,
    saving_variant,
)
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.step_record import StepRecord
from fx_explorer.instruments.breaks.call_tree import tree_lines, trees
from fx_explorer.instruments.breaks.cut_tensors import KeptValues
from fx_explorer.instruments.diff.kernel_pairs import code_lines
from fx_explorer.overview.outline import outline
from fx_explorer.report.instrument_entries import called
from fx_explorer.session import SessionReader
from tests.sessions import write_training_step


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_training_step(tmp_path / "s.fxs").path


def changed(path: Path, *statements: str) -> SessionReader:
    with sqlite3.connect(path) as db:
        for sql in statements:
            db.execute(sql)
    db.close()
    return SessionReader(path)


def compiled(number: int, name: str, function: str, stack: int = 0) -> model.Compilation:
    return model.Compilation(number, name, 0, 0, function, "/p.py", 1, stack=stack)


def test_a_function_whose_name_says_nothing_is_not_below_what_it_calls() -> None:
    """``[]`` has no number, as a function without a caller has none."""
    made = [compiled(1, "0/0", "f"), compiled(2, "[]", "g", 2), compiled(3, "1/0", "h", 3)]
    stacks = {2: (model.Frame("/p.py", 3, "f"),), 3: (model.Frame("/p.py", 3, "g"),)}
    (root,) = trees(made, stacks, [], [])
    assert [one.function for one in root.walk()] == ["f", "g", "h"]


def test_a_function_with_3000_rests_is_a_tree() -> None:
    """More than Python calls functions within one another."""
    made = [compiled(i, f"{i}/0", f"torch_dynamo_resume_in_f_at_{i}", i) for i in range(1, 3001)]
    stacks = {
        i: (model.Frame("/p.py", i, f"torch_dynamo_resume_in_f_at_{i - 1}"),)
        for i in range(2, 3001)
    }
    (root,) = trees(made, stacks, [], [])
    assert [line.split()[5] for line in tree_lines(root)] == [str(i) for i in range(1, 3001)]
    assert [one.frame for one in root.walk()] == [str(i) for i in range(1, 3001)]
    assert not root.has_graph
    assert json.dumps(called(root)).count("torch_dynamo_resume_in_f_at_") == 3000


VARIANT = "UPDATE compilation SET variant_of=name, variant_from='post_grad'"


def test_variants_that_set_out_from_themselves_are_first_variants(path: Path) -> None:
    with changed(path, VARIANT) as reader:
        (variant,) = reader.rows(model.Compilation)
        assert [one.title for one in outline(reader) if one.depth == 0 and one.is_variant] == [
            "↳ variant 0/0: from the post-grad passes"
        ]
        assert documents_of_variant(reader, variant)
        assert len(kernels_of_variant(reader, variant)) == 3
        assert saving_variant(reader, variant) == variant


def test_a_chain_of_1200_variants_is_gone_through(path: Path) -> None:
    """More than Python calls functions within one another: each variant set out from the one
    before.
    """
    with SessionReader(path) as reader:
        names = [name for _, name, *_ in reader.query("PRAGMA table_info(compilation)")]
    new = {
        "id": "i + 1",
        "name": "'0/0~' || i",
        "variant_of": "iif(i = 1, '0/0', '0/0~' || (i - 1))",
        "variant_from": "'post_grad'",
    }
    values = ", ".join(new.get(name, f"c.{name}") for name in names)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)"
    with changed(
        path,
        f"{numbers} INSERT INTO compilation SELECT {values} FROM n, compilation c WHERE c.id=1",
    ) as reader:
        *_, last = reader.rows(model.Compilation)
        first = reader.get(model.Compilation, 1)
        assert last.name == "0/0~1200"
        shared = {
            document
            for document in documents_of_variant(reader, first)
            if is_through("post_grad", document.stage)
        }
        assert {document.id for document in documents_of_variant(reader, last)} >= {
            document.id for document in shared
        }
        assert kernels_of_variant(reader, last) == []
        assert saving_variant(reader, last) == first
        assert [other.variant.name for other in other_variants(reader)][-1] == last.name
        assert len([one for one in outline(reader) if one.is_variant]) == 1200


def test_a_region_given_from_the_same_variant_comes_to_an_end(path: Path) -> None:
    columns = "id, compilation, direction, name, subgraph, nodes, is_reused, duration_s, reason"
    row = f"INSERT INTO region_lowering ({columns}) VALUES (1, 1, 'forward', '', 'none', 1, 1, 0.0, '')"
    with changed(path, VARIANT, row) as reader:
        assert [one.kernels for one in lowerings(reader)] == [()]


def test_graphs_around_one_another_are_shown(path: Path) -> None:
    with changed(path, "UPDATE graph SET parent=id") as reader:
        titles = [one.title for one in outline(reader)]
    assert titles[3] == "Dynamo graph"
    assert titles.count("Joint graph") == 1


def test_values_that_are_views_of_one_another_come_to_an_end(path: Path) -> None:
    statements = (
        "UPDATE node SET is_view=1",
        "DELETE FROM edge",
        "INSERT INTO edge SELECT id, id FROM node",
    )
    with changed(path, *statements) as reader:
        assert KeptValues(reader, None)._value(3) == 3


def test_calls_around_one_another_come_to_an_end() -> None:
    def step(call: int, parent: int) -> model.BytecodeStep:
        return model.BytecodeStep(call, 1, call, parent, "f", 0, 0, 0)

    assert StepRecord(model.BytecodeRun(1, "()"), [step(1, 2), step(2, 1)], {}).calls_around(0) == [
        2,
        1,
    ]


def test_code_inlined_into_itself_comes_to_an_end() -> None:
    text = "\n".join(
        (
            "  ret void, !dbg !1",
            "!1 = !DILocation(line: 3, scope: !2, inlinedAt: !1)",
            "!2 = distinct !DILexicalBlock(scope: !3)",
            "!3 = distinct !DILexicalBlock(scope: !2)",
        )
    )
    assert llvm_lines(text, KernelFile("")) == {1: (3,)}


def test_texts_that_difflib_takes_hours_for_are_compared_in_part() -> None:
    before = [str(i % 101) for i in range(MOST_LINES)]
    after = [str(i * i % 101) for i in range(MOST_LINES)]
    rows = text_diff(before, after)
    assert [row.before for row in rows if row.before is not None] == before
    assert [row.after for row in rows if row.after is not None] == after
    assert describe_difference(rows, "line").endswith(CUT_IN_WORDS)


def test_graphs_that_are_compared_in_part_say_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SessionReader(path) as reader:
        one, other = (reader.nodes(graph) for graph in reader.rows(model.Graph)[:2])
    assert CUT_IN_WORDS not in describe_difference(graph_diff(one, other))
    monkeypatch.setattr("fx_explorer.model.bounded_matching.MOST_STEPS", 1)
    assert CUT_IN_WORDS in describe_difference(graph_diff(one, other))


def test_a_text_that_is_too_long_to_compare_says_so() -> None:
    long = [""] * (MOST_LINES + 7)
    (*_, last) = text_diff(long, [*long[:-1], "other"])
    assert last.sign == "~"
    assert "… 7 more lines not compared one by one" in str(last.before)
    assert (
        describe_difference(text_diff(long, [*long[:-1], "other"]), "line")
        == f"1 line changed; {CUT_IN_WORDS}"
    )
    assert describe_difference(text_diff(long, long), "line") == "no difference"


def test_a_kernel_without_a_name_has_its_code(path: Path, tmp_path: Path) -> None:
    with SessionReader(path) as reader:
        kernel = next(one for one in reader.rows(model.Kernel) if one.artifact)
        before = code_lines(reader, kernel)
    other = Path(shutil.copy(path, tmp_path / "other.fxs"))
    with changed(other, f"UPDATE kernel SET name='' WHERE id={kernel.id}") as reader:
        assert [
            line.replace(kernel.name, "KERNEL")
            for line in code_lines(reader, reader.get(model.Kernel, kernel.id))
        ] == before
