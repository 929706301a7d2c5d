"""These tests check conditions for CI, on sessions written by hand: expected values can be read off
the rows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.findings.every_kind import findings
from fx_explorer.overview.check_findings import recompile_findings
from fx_explorer.overview.checks import Check, CheckFinding, relative_to
from fx_explorer.overview.conditions import CONDITIONS, checks
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written

FUNCTIONS = (
    ("0/0", 0, 0, "forward", "broke"),
    ("0/1", 0, 1, "forward", "ok"),
    ("1/0", 1, 0, "helper", "skipped"),
)
BREAK_LINES = (12, 12, 12, 15)
GUARDS = {"0/0": 3, "0/1": 2}


def write_troubled(writer: SessionWriter) -> None:
    """Two graphs, three breaks on line 12 and one on line 15, one recompile, one function left to
    Python, 3 and 2 guards.
    """
    ids = {}
    for name, frame, recompile, function, status in FUNCTIONS:
        error = "a generator" if status == "skipped" else ""
        row = model.Compilation(
            0,
            name,
            frame,
            recompile,
            function,
            "/p/m.py",
            10 * frame + 1,
            status=status,
            error=error,
        )  # type: ignore[arg-type]
        ids[name] = writer.add(row)
    for name in GUARDS:
        writer.add_graph(model.Graph(0, ids[name], "dynamo", ""), [], [])
    for line in BREAK_LINES:
        writer.add(
            model.GraphBreak(0, ids["0/0"], "GB0059", "print", "", (), "/p/m.py", line, "print(x)")
        )
    for name, number in GUARDS.items():
        writer.add_all(
            model.Guard(0, ids[name], i, "TENSOR_MATCH", f"L['x{i}']", "", "")
            for i in range(number)
        )
    writer.add(model.Recompile(0, ids["0/1"], "0/0", "0/0: k == 2", "k == 2", "/p/m.py", 3))
    writer.set_meta("outcome", model.Outcome("finished").to_json())


@pytest.fixture
def troubled(written: Written) -> SessionReader:
    return written(write_troubled)


def judge(reader: SessionReader, condition: str, limit: int) -> Check:
    (check,) = checks(reader, {condition: limit})
    return check


@pytest.mark.parametrize(
    ("condition", "number", "lines"),
    [
        ("max-graph-breaks", len(BREAK_LINES), [12, 15]),
        ("max-break-sites", len(set(BREAK_LINES)), [12, 15]),
        ("max-recompiles", 1, [3]),
        ("max-guards", max(GUARDS.values()), [1]),
        ("no-skipped-frames", 1, [11]),
    ],
)
def test_a_limit_is_met_up_to_the_number_there_is(
    troubled: SessionReader, condition: str, number: int, lines: list[int]
) -> None:
    met, missed = judge(troubled, condition, number), judge(troubled, condition, number - 1)
    assert (met.is_met, met.findings) == (True, ())
    assert not missed.is_met
    assert [(found.file, found.line) for found in missed.findings] == [
        ("/p/m.py", line) for line in lines
    ]


def test_findings_are_limited_and_each_problem_is_named(troubled: SessionReader) -> None:
    problems = [row for row in findings(troubled) if row.severity == "problem"]
    met = judge(troubled, "max-findings", len(problems))
    missed = judge(troubled, "max-findings", len(problems) - 1)
    assert (met.is_met, missed.is_met) == (True, False)
    assert [row.text for row in missed.findings] == [row.text for row in problems]
    assert {row.file for row in missed.findings} == {"/p/m.py"}


def test_guards_are_limited_by_compilation_and_each_that_has_more_is_named(
    troubled: SessionReader,
) -> None:
    named = [found.text for found in judge(troubled, "max-guards", 1).findings]
    assert named == ["forward [0/0] has 3 guards", "forward [0/1] has 2 guards"]


@pytest.mark.parametrize(("expected", "lines"), [(1, [12, 15, 3]), (3, [11])])
def test_too_many_graphs_are_explained_by_breaks_and_recompiles_and_too_few_by_what_was_skipped(
    troubled: SessionReader, expected: int, lines: list[int]
) -> None:
    assert judge(troubled, "expect-graphs", 2).is_met
    missed = judge(troubled, "expect-graphs", expected)
    assert missed.measured == f"2 graphs, {expected} expected"
    assert [found.line for found in missed.findings] == lines


def test_a_failure_is_one_line_with_the_first_place_and_the_others(troubled: SessionReader) -> None:
    told = judge(troubled, "max-graph-breaks", 2).description
    assert told == (
        "/p/m.py:12: graph breaks hit 4 times, 2 allowed (--max-graph-breaks 2): "
        "a Python builtin acts outside of the graph (3 times); also /p/m.py:15"
    )


def test_a_condition_that_takes_no_number_is_written_without_one(troubled: SessionReader) -> None:
    told = judge(troubled, "no-skipped-frames", 0).description
    assert told.startswith(
        "/p/m.py:11: 1 function not compiled, 0 allowed (--no-skipped-frames): helper [1/0]"
    )


def test_a_function_without_tensors_may_be_left_to_python_and_one_that_is_recorded_twice_counts_once(
    written: Written,
) -> None:
    def write(writer: SessionWriter) -> None:
        write_troubled(writer)
        reasons = {
            11: "a generator",
            20: "no tensor-related objects found in frame",
            30: "it is skipped",
        }
        for line, reason in reasons.items():
            writer.add(
                model.Fallback(0, 0, "skipped", f"f{line}", "/p/m.py", line, "", reason, "", (), 0)
            )

    left = judge(written(write), "no-skipped-frames", 0)
    assert [found.line for found in left.findings] == [11, 30]
    assert left.measured == "2 functions not compiled, 0 allowed"


def test_conditions_are_judged_in_one_order_and_only_those_asked_for(
    troubled: SessionReader,
) -> None:
    judged = checks(troubled, dict.fromkeys(reversed([*CONDITIONS]), 9))
    assert [check.condition for check in judged] == [*CONDITIONS]
    assert checks(troubled, {}) == []


def test_a_failure_without_a_line_of_its_own_leads_to_what_was_compiled_or_else_to_the_target(
    written: Written,
) -> None:
    def nothing(writer: SessionWriter) -> None:
        writer.set_meta("target", {"name": "m.py", "file": "/p/m.py"})

    def one_graph(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 7, status="ok"))
        writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.add(model.GraphBreak(0, compilation, "", "no stack", "", (), "", 0, ""))

    assert [f.where for f in judge(written(nothing), "expect-graphs", 1).findings] == ["/p/m.py:1"]
    assert [f.where for f in judge(written(one_graph), "max-graph-breaks", 0).findings] == [
        "/p/f.py:7"
    ]
    assert (
        judge(written(lambda _: None), "expect-graphs", 1).description
        == "0 graphs, 1 expected (--expect-graphs 1)"
    )


def test_another_variant_tried_from_a_gate_is_no_compilation_more(written: Written) -> None:
    def two_variants(writer: SessionWriter) -> None:
        write_troubled(writer)
        variant = model.Compilation(
            0,
            "0/0~1",
            0,
            0,
            "forward",
            "/p/m.py",
            1,
            status="failed",
            variant_of="0/0",
            in_use=False,
        )
        writer.add(variant)

    assert judge(written(two_variants), "no-skipped-frames", 1).is_met


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("a/b.py", "a/b.py"),
        ("", ""),
        ("<stdin>", "<stdin>"),
        ("{folder}/b.py", "b.py"),
        ("/q/b.py", "/q/b.py"),
    ],
)
def test_files_below_a_folder_are_named_from_there(tmp_path: Path, file: str, shown: str) -> None:
    check = Check(
        "expect-graphs", 1, "", (CheckFinding(file.format(folder=tmp_path), 3, ""),), is_met=False
    )
    assert relative_to(check, tmp_path).findings[0].file == shown


def test_a_folder_reached_through_a_link_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    check = Check(
        "expect-graphs",
        1,
        "",
        (CheckFinding(str(tmp_path / "real" / "m.py"), 3, ""),),
        is_met=False,
    )
    assert relative_to(check, tmp_path / "link").findings[0].file == "m.py"


def test_a_recompile_by_a_line_of_a_library_is_of_the_project_that_calls_it(
    written: Written, tmp_path: Path
) -> None:
    """A guard on the size of an input is asked for where a library reads the size."""
    caller = model.Frame(str(tmp_path / "train.py"), 8, "<module>", "compiled(tokens)")
    reason = "tensor 'tokens' size mismatch at index 0. expected 2, actual 1"

    def write(writer: SessionWriter) -> None:
        files = {caller.file: writer.add(model.SourceFile(0, caller.file, 0))}
        stack = writer.add_stack(model.Stack(0, (caller,)), files)
        writer.add(model.Compilation(0, "0/0", 0, 0, "forward", "/lib/net.py", 15))
        again = writer.add(
            model.Compilation(0, "0/1", 0, 1, "forward", "/lib/net.py", 15, stack=stack)
        )
        writer.add(model.Recompile(0, again, "0/0", f"0/0: {reason}", reason, "/lib/vit.py", 33))

    reader = written(write)
    (anywhere,) = recompile_findings(reader)
    assert (anywhere.file, anywhere.line) == ("/lib/vit.py", 33)
    (own,) = recompile_findings(reader, tmp_path)
    assert (own.file, own.line) == (caller.file, caller.line)
    assert list(recompile_findings(reader, tmp_path / "elsewhere")) == []
