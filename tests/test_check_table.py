"""These tests check the targets of ``[tool.fx-explorer.check]`` in a pyproject.toml: one result, one
exit code.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fx_explorer.cli import main
from fx_explorer.command_line.check_table import find_table, read_table
from fx_explorer.errors import UsageError
from tests.conftest import Captured
from tests.report.test_sarif import check_format


def table(folder: Path, text: str) -> Path:
    file = folder / "pyproject.toml"
    file.write_text(text)
    return file


@pytest.fixture
def project(captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two sessions: one has graph breaks, the other none."""
    shutil.copy(captured("graph_breaks"), tmp_path / "broken.fxs")
    shutil.copy(captured("mlp"), tmp_path / "whole.fxs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TWO = """\
[tool.fx-explorer.check]
max-graph-breaks = 0
[tool.fx-explorer.check.broken]
target = "broken.fxs"
[tool.fx-explorer.check.whole]
target = "whole.fxs"
"""


def test_all_targets_have_one_result_and_one_exit_code(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table(project, TWO)
    below = project / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    files = ["--junit", "c.xml", "--sarif", "c.sarif", "--summary", "c.md", "--csv", "c.csv"]
    assert main(["check", *files, "--github"]) == 1
    assert Path.cwd() == below
    printed = capsys.readouterr()
    failed, *annotations = printed.out.splitlines()
    assert failed.endswith("[broken]")
    assert annotations
    assert all(line.startswith("::error ") for line in annotations)
    assert "met: 0 graph breaks, 0 allowed (--max-graph-breaks 0) [whole]" in printed.err
    assert "1 of 2 targets failed: broken" in printed.err
    suites = ElementTree.parse(below / "c.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["broken", "whole"]
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")
    check_format((below / "c.sarif").read_text())
    assert "## torch.compile: 1 of 2 targets failed" in (below / "c.md").read_text()
    with (below / "c.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert int(rows["broken"]["graph_breaks"]) > 0
    assert (rows["whole"]["graph_breaks"], rows["whole"]["unique_graphs"]) == ("0", "1")


def test_one_of_the_targets_can_be_chosen(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(project, TWO)
    assert main(["check", "--only", "whole"]) == 0
    assert main(["check", "--only", "nothing"]) == 2
    assert "no target called nothing; it has broken, whole" in capsys.readouterr().err


def test_baselines_of_all_are_written_and_held_against(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(
        project,
        '[tool.fx-explorer.check.a]\ntarget = "broken.fxs"\nbaseline = "a.json"\n'
        '[tool.fx-explorer.check.b]\ntarget = "whole.fxs"\nmax-graph-breaks = 0\n',
    )
    assert main(["check"]) == 2
    assert "--update writes one" in capsys.readouterr().err
    assert main(["check", "--update"]) == 0
    assert main(["check"]) == 0
    stored = json.loads((project / "a.json").read_text())
    stored["figures"]["graph_breaks"] = {"value": 0, "parts": []}
    (project / "a.json").write_text(json.dumps(stored))
    assert main(["check"]) == 1


def test_a_target_that_is_not_there_fails_alone(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(project, TWO.replace("broken.fxs", "nothing.py"))
    assert main(["check"]) == 2
    err = capsys.readouterr().err
    assert "there is no file nothing.py" in err
    assert "[whole]" in err
    table(project, TWO.replace("broken.fxs", "damaged.fxs"))
    (project / "damaged.fxs").write_text("damaged")
    assert main(["check"]) == 5
    assert "1 of 2 targets failed: broken" in capsys.readouterr().err


PROGRAM = """\
import torch
model = torch.nn.Linear(4, 4)
example_inputs = (torch.randn(2, 4),)
"""


def test_targets_are_captured_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(PROGRAM)
    (tmp_path / "raises.py").write_text(f"{PROGRAM}raise ValueError('bad')\n")
    entries = [
        f'[tool.fx-explorer.check.{name}]\ntarget = "{name}.py"\nexpect-graphs = 1\ntrain = false\n'
        for name in ("a", "b", "raises")
    ]
    table(tmp_path, "\n".join(entries))
    assert main(["check", "--jobs", "2"]) == 3
    err = capsys.readouterr().err
    assert err.count("met: 1 graph, 1 expected") == 2
    assert "1 of 3 targets failed: raises" in err
    assert "raised: ValueError: bad" in err


def test_a_signal_stops_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text("import time\nprint('here')\ntime.sleep(600)\n")
    entries = [f'[tool.fx-explorer.check.{n}]\ntarget = "{n}.py"\nmax-kernels = 0\n' for n in "ab"]
    table(tmp_path, "\n".join(entries))
    process = subprocess.Popen(
        [sys.executable, "-m", "fx_explorer", "check"], cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "capturing" in process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert list((tmp_path / "tmp").iterdir()) == []


def test_entries_are_the_options_of_the_command(tmp_path: Path) -> None:
    file = table(
        tmp_path,
        '[tool.fx-explorer.check]\nmax-recompiles = 1\ntimeout = 60\n'
        '[tool.fx-explorer.check.net]\ntarget = "net.py:Net"\nmax-saved-bytes = "64kB"\n'
        'no-fallbacks = true\nno-skipped-frames = false\ntrain = false\n'
        'expect-fused = [["gelu", "add"], ["mul", "sum"]]\noption = ["a=1", "b=2"]\n'
        'allow = ["gaps", "nothing"]\nown = "nets"\ninputs = "torch.ones(2)"\n'
        '[tool.fx-explorer.check.other]\ntarget = "-x.py"\nmax-recompiles = 5\n',
    )  # fmt: skip
    net, other = (entry.arguments for entry in read_table(file))
    assert (net.target, net.max_recompiles, net.max_saved_bytes) == ("net.py:Net", 1, 64_000)
    assert (net.no_fallbacks, net.no_skipped_frames, net.train) == (0, None, False)
    assert net.expect_fused == [["gelu", "add"], ["mul", "sum"]]
    assert dict(net.option) == {"a": 1, "b": 2}
    assert (net.allowed, net.own, net.inputs) == (
        ["gaps", "nothing"],
        Path("nets"),
        "torch.ones(2)",
    )
    assert (other.target, other.max_recompiles, other.timeout) == ("-x.py", 5, 60)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.fx-explorer]\ncheck = 3\n", "is 3, not a table"),
        ("[tool.fx-explorer.check]\nmax-kernels = 1\n", "has no target: add"),
        ('[tool.fx-explorer.check]\ntarget = "m.py"\n[tool.fx-explorer.check.a]\n', "belongs in"),
        ("[tool.fx-explorer.check.a]\nmax-kernels = 1\n", "it needs a target"),
        ("[tool.fx-explorer.check.a]\ntarget = 3\n", "it needs a target"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\n', "check needs a condition"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nmax-kernel = 1\n', "did you mean max-kernels?"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\njunit = "x"\n', ("junit is not a known "
                                                                       "entry")),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nmax-kernels = "x"\n', "is not a number"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nmax-kernels = true\n', "needs a value"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nmax-kernels = -1\n', "is not a number"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nno-fallbacks = 1\n', "must be true or false"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nown = {a = 1}\n', "cannot be"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nallow = "gaps"\n', "must be a list of names"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nallow = ["x"]\nmax-kernels = 1\n', "--allow-x"),
        ('[tool.fx-explorer.check.a]\ntarget = "m.py"\nupdate = true\n', ("update is not a known "
                                                                         "entry")),
        ("[tool.fx-explorer.check.a\n", "cannot be read"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_table_names_the_file_and_the_entry(
    text: str, message: str, tmp_path: Path
) -> None:
    file = table(tmp_path, text)

    def read() -> None:
        found = find_table(tmp_path)
        assert found == file
        read_table(found)

    with pytest.raises(UsageError) as raised:
        read()
    assert message in str(raised.value)
    assert "pyproject.toml" in str(raised.value)


def test_without_target_and_table_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path, '[project]\nname = "x"\n')
    assert main(["check", "--max-kernels", "0"]) == 2
    assert "check needs a target, or a pyproject.toml with" in capsys.readouterr().err
    table(tmp_path, TWO)
    assert main(["check", "--max-kernels", "0"]) == 2
    assert "--max-kernels works on one target" in capsys.readouterr().err
    assert main(["check", "m.py", "--only", "a", "--max-kernels", "0"]) == 2
    assert "leave X out" in capsys.readouterr().err
