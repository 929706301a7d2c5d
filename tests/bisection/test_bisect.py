"""These tests bisect repositories with a planted regression: the commit is found in at most seven
captures, and the fact that changed is named.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fx_explorer.cli import main
from tests.bisection.planted import PLANTED, PROGRAM, SCALED, commit, git, history, new_repository
from tests.exhaustive import in_exhaustive_runs

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "reference" / "bisect-schema.json").read_text())

Bisected = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bisected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], warm_workers: None
) -> Bisected:
    """``bisected(repository, *words)`` → exit code, standard output and standard error. Captures
    are made in the warm Python where none is named.
    """

    def run(repository: Path, *words: str) -> tuple[int, str, str]:
        monkeypatch.chdir(repository)
        exit_code = main(["bisect", *words])
        assert Path.cwd() == repository
        printed = capsys.readouterr()
        return exit_code, printed.out, printed.err

    return run


def judged(bisected: Bisected, repository: Path, good: str, name: str) -> dict[str, Any]:
    """Bisect for a planted regression, and return the report, which fits its schema."""
    words = ["--good", good, "--bad", "HEAD", "--format", "json", "--", *PLANTED[name].condition]
    before = git(repository, "worktree", "list"), git(repository, "status", "--porcelain")
    exit_code, out, _ = bisected(repository, *words)
    assert (git(repository, "worktree", "list"), git(repository, "status", "--porcelain")) == before
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    assert exit_code == 0
    return report


def check_facts(report: dict[str, Any], name: str, bad: str, program: str) -> None:
    planted = PLANTED[name]
    assert [commit["hash"] for commit in report["suspects"]] == [bad]
    asked = [fact for fact in report["facts"] if fact["is_asked"]]
    parts = [part for fact in asked for part in fact["new"]]
    texts = [fact["now"] for fact in asked] + [fact["what"] for fact in asked]
    texts += [part["text"] for part in parts]
    assert any(re.search(planted.fact, text) for text in texts), texts
    if planted.line != "-":
        lines = program.splitlines()
        named = {lines[part["line"] - 1] for part in parts if part["file"] == "model.py"}
        assert any(planted.changed_line.strip() in line for line in named), (named, parts)
    changed = {line["text"] for line in report["lines"]}
    assert set(planted.new.splitlines()) <= changed | set(planted.old.splitlines())


@in_exhaustive_runs
@pytest.mark.parametrize("name", ["graph break", "fallback"])
def test_a_planted_regression_is_found_and_the_fact_named(
    name: str, bisected: Bisected, tmp_path: Path
) -> None:
    repository, first, bad = history(tmp_path / "project", PLANTED[name], 3, 2)
    report = judged(bisected, repository, first, name)
    assert report["captures"] <= 3
    check_facts(report, name, bad, git(repository, "show", f"{bad}:model.py"))


@in_exhaustive_runs
@pytest.mark.parametrize("name", PLANTED)
def test_among_sixty_commits_seven_captures_suffice(
    name: str, bisected: Bisected, tmp_path: Path
) -> None:
    at = 5 * (1 + list(PLANTED).index(name))
    repository, first, bad = history(tmp_path / "project", PLANTED[name], 60, at)
    report = judged(bisected, repository, first, name)
    assert report["captures"] <= 7
    check_facts(report, name, bad, git(repository, "show", f"{bad}:model.py"))


def test_the_commit_its_lines_and_the_fact_are_printed_and_sessions_kept(
    bisected: Bisected, tmp_path: Path
) -> None:
    """From a folder below the root, with a commit that cannot be judged, a merge and
    uncommitted changes.
    """
    repository = new_repository(tmp_path / "project")
    (repository / "nets").mkdir()
    good = commit(repository, "the model", **{"nets/model_py": PROGRAM})
    commit(repository, "broken", **{"nets/model_py": "import nothing_of_this_name\n"})
    git(repository, "checkout", "-q", "-b", "logging")
    worse = PROGRAM.replace(SCALED, PLANTED["graph break"].new)
    commit(repository, "log the shape", **{"nets/model_py": worse})
    git(repository, "checkout", "-q", "main")
    commit(repository, "mend", **{"nets/model_py": PROGRAM})
    git(repository, "merge", "-q", "--no-ff", "-X", "theirs", "-m", "merge logging", "logging")
    merge = git(repository, "rev-parse", "HEAD")
    (repository / "nets" / "model.py").write_text(worse)
    git(repository, "commit", "-q", "--amend", "-a", "--no-edit")
    merge = git(repository, "rev-parse", "HEAD")
    (repository / "nets" / "model.py").write_text("uncommitted changes")
    kept = tmp_path / "kept"
    words = ("--good", good, "--bad", "main", "--keep", str(kept), "--", "model.py",
             "--max-graph-breaks", "0")  # fmt: skip
    exit_code, out, err = bisected(repository / "nets", *words)
    assert exit_code == 0
    assert f"First bad commit: {merge[:10]} Ann" in out
    assert "It is a merge." in out
    assert "nets/model.py" in out
    assert "print(x.shape)" in out
    assert "graph breaks: 0 → 1" in out
    assert "uncommitted changes" in err
    assert re.search(r"1\. \w+ \"merge logging\" \(\d captures left at most\)", err)
    assert (repository / "nets" / "model.py").read_text() == "uncommitted changes"
    assert sorted(path.name for path in kept.iterdir()) == ["bad.fxs", "good.fxs"]


@in_exhaustive_runs
def test_commits_that_cannot_be_judged_leave_several(bisected: Bisected, tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "project")
    commit(repository, "no model yet", notes_md="x")
    good = commit(repository, "the model", model_py=PROGRAM)
    broken = commit(repository, "broken", model_py="import nothing_of_this_name\n")
    worse = PROGRAM.replace(SCALED, PLANTED["graph break"].new)
    bad = commit(repository, "log the shape", model_py=worse)
    words = ("--format", "json", "--", "model.py", "--max-graph-breaks", "0")
    exit_code, out, _ = bisected(repository, "--good", good, "--bad", "HEAD", *words)
    assert exit_code == 1
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    assert [commit["hash"] for commit in report["suspects"]] == [broken, bad]
    skipped = [step for step in report["steps"] if step["verdict"] == "skipped"]
    assert [step["name"] for step in skipped] == [broken]
    assert "nothing_of_this_name" in skipped[0]["why"]


@in_exhaustive_runs
def test_where_the_program_of_the_bad_commit_raises_that_is_looked_for(
    bisected: Bisected, tmp_path: Path
) -> None:
    repository = new_repository(tmp_path / "project")
    good = commit(repository, "the model", model_py=PROGRAM)
    broken = commit(repository, "broken", model_py="import nothing_of_this_name\n")
    words = ("--format", "json", "--", "model.py", "--max-graph-breaks", "0")
    exit_code, out, _ = bisected(repository, "--good", good, "--bad", "HEAD", *words)
    report = json.loads(out)
    assert exit_code == 0
    assert [commit["hash"] for commit in report["suspects"]] == [broken]
    assert report["facts"][0]["what"] == "the program"
    assert "raised ModuleNotFoundError" in report["facts"][0]["now"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "needs --good REV and --bad REV"),
        (("--good", "a", "--", "model.py", "--max-kernels", "1"), "needs --good REV and --bad REV"),
        (("--good", "a", "--bad", "b"), "needs a condition after --"),
        (("--good", "a", "--bad", "b", "--", "model.py"), "check needs a condition"),
        (("--good", "nothing", "--bad", "HEAD", "--", "m.py", "--max-kernels", "1"),
         "--good nothing: this repository has no such commit"),
        (("--good", "HEAD", "--bad", "HEAD", "--", "m.py", "--max-kernels", "1"),
         "the same commit"),
        (("--good", "HEAD~1", "--bad", "HEAD", "--", "m.fxs", "--max-kernels", "1"),
         "give the target"),
        (("--good", "HEAD~1", "--bad", "HEAD", "--", "m.py", "--baseline", "b", "--update"),
         "remove --update"),
        (("--good", "HEAD~1", "--bad", "HEAD", "--", "m.py", "--baseline", "b.json"),
         "b.json"),
        (("--python", "a", "--", "m.py", "--max-kernels", "1"), "at least twice"),
        (("--python", "a", "--good", "b", "--", "m.py", "--max-kernels", "1"), "in place of"),
        (("--link", "no", "--good", "b", "--bad", "c", "--", "m.py", "--max-kernels", "1"),
         "there is no such file"),
    ],
)  # fmt: skip
def test_what_is_no_bisect_is_told(
    words: tuple[str, ...], message: str, bisected: Bisected, tmp_path: Path
) -> None:
    repository = new_repository(tmp_path / "project")
    commit(repository, "first")
    commit(repository, "second")
    exit_code, _, err = bisected(repository, *words)
    assert exit_code == 2
    assert message in err


def test_outside_of_a_repository_it_is_told(bisected: Bisected, tmp_path: Path) -> None:
    words = ("--good", "a", "--bad", "b", "--", "m.py", "--max-kernels", "1")
    exit_code, _, err = bisected(tmp_path, *words)
    assert exit_code == 2
    assert "is not in a checkout of a git repository" in err


def test_a_good_commit_that_is_bad_and_a_bad_one_that_is_good_are_told(
    bisected: Bisected, tmp_path: Path
) -> None:
    repository = new_repository(tmp_path / "project")
    good = commit(repository, "the model", model_py=PROGRAM)
    worse = PROGRAM.replace(SCALED, PLANTED["graph break"].new)
    bad = commit(repository, "worse", model_py=worse)
    commit(repository, "worse still", notes_md="x")
    condition = ("--", "model.py", "--max-graph-breaks", "0")
    exit_code, _, err = bisected(repository, "--good", bad, "--bad", "HEAD", *condition)
    assert exit_code == 2
    assert 'worse", which is given as good, is also bad' in err
    allowed = ("--", "model.py", "--max-graph-breaks", "1")
    exit_code, _, err = bisected(repository, "--good", good, "--bad", "HEAD", *allowed)
    assert exit_code == 2
    assert "the condition is met" in err
    assert "there is no bad commit to look for" in err


def test_a_signal_leaves_nothing_behind_and_says_how_to_go_on(tmp_path: Path) -> None:
    repository, first, _ = history(tmp_path / "project", PLANTED["graph break"], 3, 2)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "fx_explorer", "bisect", "--good", first, "--bad", "HEAD",
               "--", "model.py", "--max-graph-breaks", "0"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=repository, env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    deadline = time.monotonic() + 120
    for line in process.stdout:
        assert time.monotonic() < deadline
        if "1. " in line:
            break
    while "fx-explorer-run-" not in git(repository, "worktree", "list"):
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert git(repository, "worktree", "list").count("\n") == 0
    assert list(temporary.iterdir()) == []


def test_interpreters_are_bisected_too(
    bisected: Bisected, tmp_path: Path, warm_python: str
) -> None:
    """Interpreters that set a variable stand for releases of torch."""
    pythons = []
    for number in range(3):
        python = tmp_path / f"python{number}"
        value = "1" if number == 2 else ""
        python.write_text(f'#!/bin/sh\nWORSE={value} exec {warm_python} "$@"\n')
        python.chmod(0o755)
        pythons += ["--python", str(python)]
    worse = PLANTED["graph break"].new.replace("print(", "WORSE and print(")
    program = "import os\nWORSE = os.environ['WORSE']\n" + PROGRAM.replace(SCALED, worse)
    (tmp_path / "model.py").write_text(program)
    condition = ("--", "model.py", "--max-graph-breaks", "0")
    exit_code, out, _ = bisected(tmp_path, *pythons, "--format", "json", *condition)
    assert exit_code == 0
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    assert report["over"] == "interpreters"
    assert [suspect["python"] for suspect in report["suspects"]] == [str(tmp_path / "python2")]
    assert report["suspects"][0]["torch"].startswith("2.")


def test_a_project_that_is_installed_as_editable_is_imported_from_the_commit(
    bisected: Bisected, tmp_path: Path, warm_python: str
) -> None:
    repository = new_repository(tmp_path / "project")
    (repository / "src" / "nets").mkdir(parents=True)
    files = {
        "src/nets/__init___py": "",
        "check_py": "from nets.model import example_inputs, model\n",
    }
    good = commit(repository, "the model", **files, **{"src/nets/model_py": PROGRAM})
    worse = PROGRAM.replace(SCALED, PLANTED["graph break"].new)
    bad = commit(repository, "worse", **{"src/nets/model_py": worse})
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{repository}/src"\n'
        f'[ "$1" = -c ] && exec {sys.executable} "$@"\nexec {warm_python} "$@"\n'
    )
    python.chmod(0o755)
    condition = ("--", "check.py", "--max-graph-breaks", "0", "--python", str(python))
    exit_code, out, _ = bisected(repository, "--good", good, "--bad", "HEAD", *condition)
    assert exit_code == 0
    assert bad[:10] in out
    assert "src/nets/model.py" in out
