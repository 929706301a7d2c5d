"""These tests check ``fx-explorer check``: its output, its files and its exit codes, on sessions of
real programs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from fx_explorer import cli, model
from fx_explorer.overview.checks import Check, CheckFinding
from fx_explorer.overview.conditions import CONDITIONS
from fx_explorer.report.check_formats import annotation_lines
from fx_explorer.session import SessionReader, SessionWriter

ROOT = Path(__file__).parents[1]

Captured = Callable[..., Path]

ANNOTATION = re.compile(r"^::(?P<name>error|warning) (?P<properties>[^:]*)::(?P<message>.*)$")


def check(*arguments: object) -> int:
    return cli.main(["check", *map(str, arguments)])


def test_what_is_allowed_is_the_number_that_the_report_tells(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    """Second source: the JSON report, whose totals are held against torch's own counters elsewhere."""
    session = captured("graph_breaks")
    assert cli.main(["report", str(session)]) == 0
    told = json.loads(capsys.readouterr().out)
    guards = max(compilation["guards"] for compilation in told["compilations"])
    totals = told["totals"]
    limits = {
        "--max-graph-breaks": totals["graph_break_hits"],
        "--max-break-sites": totals["graph_breaks"],
        "--max-guards": guards,
    }
    for option, number in limits.items():
        assert check(session, option, number) == 0
        assert check(session, option, number - 1) == 1
    assert (
        check(
            session, "--expect-graphs", totals["graphs"], "--max-recompiles", totals["recompiles"]
        )
        == 0
    )
    assert check(session, "--expect-graphs", totals["graphs"] + 1) == 1


def test_each_failure_is_one_line_with_its_place_and_the_rest_goes_to_stderr(
    captured: Captured, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with SessionReader(captured("graph_breaks")) as reader:
        lines = {row.line for row in reader.rows(model.GraphBreak)}
    arguments = ("--max-graph-breaks", 0, "--max-guards", 0, "--max-recompiles", 0)
    assert check(captured("graph_breaks"), *arguments) == 1
    printed = capsys.readouterr()
    breaks, guards = printed.out.splitlines()
    where = re.match(
        r"sample_models/graph_breaks\.py:(\d+): graph breaks hit \d+ times?, 0 allowed \(--max-graph-breaks 0\): ",
        breaks,
    )
    assert where
    assert int(where[1]) in lines
    assert re.match(
        r"sample_models/graph_breaks\.py:\d+: \d+ guards in one compilation, 0 allowed", guards
    )
    assert printed.err == "met: 0 recompiles, 0 allowed (--max-recompiles 0)\n"


def test_a_recompile_is_told_with_what_changed(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(captured("recompiles"), "--max-recompiles", 0) == 1
    assert "size 0 of x" in capsys.readouterr().out


def test_a_session_that_meets_all_conditions_prints_nothing(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        check(
            captured("mlp"),
            "--max-graph-breaks",
            0,
            "--no-skipped-frames",
            "--expect-graphs",
            1,
            "--github",
        )
        == 0
    )
    assert capsys.readouterr().out == ""


def test_without_a_condition_they_are_listed(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(captured("mlp")) == 2
    error = capsys.readouterr().err
    assert [name for name in CONDITIONS if f"--{name}" not in error] == []


@pytest.mark.parametrize("number", ["-1", "two", "1.5", ""])
def test_a_limit_is_a_whole_number(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        check("s.fxs", "--max-guards", number)
    assert ended.value.code == 2
    assert "--max-guards" in capsys.readouterr().err


# what is written for others


def read_annotation(line: str) -> dict[str, str]:
    """Read an annotation as the runner does: %-escapes are undone after the line is taken apart."""
    found = ANNOTATION.match(line)
    assert found, line
    properties = dict(part.split("=", 1) for part in found["properties"].split(","))
    return {
        name: unquote(value) for name, value in (*properties.items(), ("message", found["message"]))
    }


def test_each_place_is_an_annotation_by_its_path_in_the_repository(
    captured: Captured,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(ROOT))
    session = captured("graph_breaks")
    assert check(session, "--max-break-sites", 0, "--github") == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith(str(ROOT))
    told = [read_annotation(line) for line in lines]
    with SessionReader(session) as reader:
        sites = {(row.file, row.line) for row in reader.rows(model.GraphBreak)}
    assert {(str(ROOT / one["file"]), int(one["line"])) for one in told} == sites
    assert {one["title"] for one in told} == {"torch.compile: max-break-sites"}


@pytest.mark.parametrize(
    "hostile",
    ["a,b:c.py", "100%25.py", "line\nbreak.py", "\r::error::x", "x\x1b[2J::debug::y", "é漢.py"],
)
def test_an_annotation_stays_one_line_and_one_command(hostile: str) -> None:
    failed = Check("max-guards", 0, hostile, (CheckFinding(hostile, 3, hostile),), is_met=False)
    (line,) = annotation_lines(failed)
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    told = read_annotation(line)
    assert set(told) == {"file", "line", "title", "message"}
    assert told["line"] == "3"
    if hostile.isprintable():
        assert told["file"] == hostile
        assert told["message"].endswith(f": {hostile}")


def test_a_junit_file_has_a_case_for_each_condition(captured: Captured, tmp_path: Path) -> None:
    file = tmp_path / "check.xml"
    assert (
        check(
            captured("graph_breaks"),
            "--max-graph-breaks",
            0,
            "--max-recompiles",
            0,
            "--junit",
            file,
        )
        == 1
    )
    cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    assert [(case.attrib["name"], len(case)) for case in cases] == [
        ("--max-graph-breaks 0", 1),
        ("--max-recompiles 0", 0),
    ]
    assert {case.attrib["classname"] for case in cases} == {"graph_breaks.py:Breaks"}


def test_a_junit_file_that_cannot_be_written_is_told(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        check(captured("mlp"), "--max-graph-breaks", 0, "--junit", tmp_path / "no" / "check.xml")
        == 2
    )
    assert "cannot write" in capsys.readouterr().err


# how it ends


def test_a_program_that_raised_ends_with_3_even_where_all_conditions_are_met(
    tmp_path: Path, warm_python: str, fx_explorer: list[str]
) -> None:
    target, kept = tmp_path / "raises.py", tmp_path / "kept.fxs"
    target.write_text(
        "import torch\n"
        "def model(x):\n    y = x * 2\n    print(y)\n    raise ValueError('on purpose')\n"
        "example_inputs = (torch.ones(2),)\n"
    )
    command = [
        *fx_explorer,
        "check",
        str(target),
        "--backend",
        "eager",
        "-o",
        str(kept),
    ]
    limits = ["--max-recompiles", "0", "--max-graph-breaks", "0", "--python", warm_python]
    ended = subprocess.run(
        [*command, *limits], capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path
    )
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.startswith("raises.py:4: ")
    assert "met: 0 recompiles" in ended.stderr
    assert "on purpose" in ended.stderr
    assert check(kept, "--max-recompiles", 0) == 3


def test_a_session_whose_capture_never_ended_is_not_taken_for_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
    assert check(tmp_path / "s.fxs", "--max-graph-breaks", 0) == 4
    assert "the capture of this session has not ended" in capsys.readouterr().err


ONE_GRAPH = model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 7, status="ok")


def write_outcome(writer: SessionWriter, *outcome: object, **fields: object) -> None:
    writer.set_meta("target", {"name": "m.py", "file": "/p/m.py"})
    writer.set_meta("outcome", model.Outcome(*outcome, **fields).to_json())  # type: ignore[arg-type]


def write_nothing(writer: SessionWriter) -> None:
    write_outcome(
        writer, "finished", "m.py ran to its end and compiled nothing: it never imported torch"
    )


def write_early_exit(writer: SessionWriter) -> None:
    writer.add_graph(model.Graph(0, writer.add(ONE_GRAPH), "dynamo", ""), [], [])
    write_outcome(
        writer, "exited", "the program called sys.exit(0)", 0, is_early=True, file="/p/m.py", line=5
    )


def write_unseen_child(writer: SessionWriter) -> None:
    writer.add_graph(model.Graph(0, writer.add(ONE_GRAPH), "dynamo", ""), [], [])
    writer.add(model.ChildProcess(0, 0, "started", "python -I x.py", "it was started with -I"))
    write_outcome(writer, "finished")


def write_compile_error(writer: SessionWriter) -> None:
    """Write a compile error as ``fullgraph=True`` leaves it: skipped, and neither a break nor a
    fallback.
    """
    writer.add_graph(model.Graph(0, writer.add(ONE_GRAPH), "dynamo", ""), [], [])
    failed = writer.add(
        model.Compilation(
            0, "1/0", 1, 0, "g", "/p/m.py", 9, status="skipped", error="print is called"
        )
    )
    writer.add(model.Metric(0, failed, "compilation_metrics", '{"fail_type": "Unsupported"}'))
    write_outcome(writer, "finished")


def write_gap(writer: SessionWriter) -> None:
    writer.add_graph(model.Graph(0, writer.add(ONE_GRAPH), "dynamo", ""), [], [])
    writer.add(
        model.Failure(0, 0, "recorder", None, "RuntimeError", "could not record a graph break")
    )
    writer.add(model.Failure(0, 0, "recorder", None, "unavailable", "kernels: nothing was built"))
    write_outcome(writer, "finished")


def write_child_error(writer: SessionWriter) -> None:
    writer.add_graph(model.Graph(0, writer.add(ONE_GRAPH), "dynamo", ""), [], [])
    child = writer.add(model.ChildProcess(0, 77, "forked", "m.py", compilations=1))
    writer.add(model.ChildFinding(0, child, "error", "/p/m.py", 9, "", "g: print is called"))
    write_outcome(writer, "finished")


@pytest.mark.parametrize(
    ("write", "allowed", "line", "sentence"),
    [
        (write_nothing, "nothing", 1, "nothing was compiled, so no limit was really tested"),
        (write_early_exit, "early-exit", 5, "the program left before its end"),
        (
            write_unseen_child,
            "unseen-children",
            7,
            "it is not known what 1 child process compiled",
        ),
        (write_compile_error, "compile-errors", 9, "compiling raised an error 1 time"),
        (write_gap, "gaps", 7, "1 record of torch could not be read"),
        (write_child_error, "compile-errors", 9, "compiling raised an error 1 time"),
    ],
)
@pytest.mark.parametrize(
    "condition",
    # Without generated code no peak is known, which is a failure of its own.
    [name for name in CONDITIONS if name.startswith("max-") and name != "max-peak"],
)
def test_a_condition_that_holds_for_the_wrong_reason_fails_with_a_sentence_of_its_own_and_can_be_allowed(
    write: Callable[[SessionWriter], None],
    allowed: str,
    line: int,
    sentence: str,
    condition: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        write(writer)
    asked = (tmp_path / "s.fxs", f"--{condition}", 9)
    assert check(*asked, "--github", "--junit", tmp_path / "c.xml") == 1
    told, annotation = capsys.readouterr().out.splitlines()
    assert told.startswith(f"/p/m.py:{line}: {sentence} (if this is intended: --allow-{allowed})")
    assert read_annotation(annotation)["message"].startswith(sentence)
    failed = [
        case.attrib
        for case in ElementTree.parse(tmp_path / "c.xml").getroot().iter("testcase")
        if len(case)
    ]
    assert [(case["name"], case["line"]) for case in failed] == [
        (f"if this is intended: --allow-{allowed}", str(line))
    ]
    assert check(*asked, f"--allow-{allowed}") == 0


def test_zero_graphs_that_are_expected_are_no_surprise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        write_nothing(writer)
    assert check(tmp_path / "s.fxs", "--expect-graphs", 0) == 0
    assert check(tmp_path / "s.fxs", "--expect-graphs", 1, "--allow-nothing") == 1
    capsys.readouterr()


def test_every_condition_counts_what_child_processes_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Expected: what is written here. The break on line 7 happens in the program, too, and is one
    place.
    """
    with SessionWriter(tmp_path / "s.fxs") as writer:
        own = writer.add(ONE_GRAPH)
        writer.add_graph(model.Graph(0, own, "dynamo", ""), [], [])
        writer.add(model.GraphBreak(0, own, "GB0059", "print", "", (), "/p/m.py", 7, "print(x)"))
        child = writer.add(
            model.ChildProcess(
                0, 77, "forked", "m.py", "", 3, graphs=2, graph_breaks=4, recompiles=1
            )
        )
        for kind, line, cause, text, count in (
            ("break", 7, "GB0059", "print", 3),
            ("break", 8, "GB0059", "print", 1),
            ("recompile", 3, "", "k == 2", 1),
            ("guards", 7, "", "f", 12),
            ("left", 20, "skipped", "a generator", 1),
            ("left", 21, "skipped", "no tensor-related objects found in frame", 1),
        ):
            writer.add(model.ChildFinding(0, child, kind, "/p/m.py", line, cause, text, count))  # type: ignore[arg-type]
        write_outcome(writer, "finished")
    for condition, number, line in (
        ("max-graph-breaks", 5, 7),
        ("max-break-sites", 2, 7),
        ("max-recompiles", 1, 3),
        ("max-guards", 12, 7),
        ("expect-graphs", 3, 7),
    ):
        assert check(tmp_path / "s.fxs", f"--{condition}", number) == 0
        assert check(tmp_path / "s.fxs", f"--{condition}", number - 1) == 1
        assert capsys.readouterr().out.startswith(f"/p/m.py:{line}: ")
    assert check(tmp_path / "s.fxs", "--no-skipped-frames") == 1
    assert "m.py:20: 1 function not compiled, 0 allowed" in capsys.readouterr().out


def test_hostile_names_reach_neither_the_terminal_nor_a_second_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.add(
            model.GraphBreak(
                0, compilation, "", "why\x1b[2J\nnot", "", (), "/p/\x1b]0;x\x07\nm.py", 3, ""
            )
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    assert check(tmp_path / "s.fxs", "--max-graph-breaks", 0) == 1
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.removesuffix("\n").isprintable()


def test_a_saved_session_is_not_saved_again(
    captured: Captured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(captured("mlp"), "--max-guards", 1, "-o", tmp_path / "copy.fxs") == 2
    assert "-o works on targets" in capsys.readouterr().err


def test_what_cannot_be_checked_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path / "missing.fxs", "--max-guards", 1) == 5
    assert "no session file at" in capsys.readouterr().err
    shutil.copy(__file__, tmp_path / "broken.fxs")
    assert check(tmp_path / "broken.fxs", "--max-guards", 1) == 5
