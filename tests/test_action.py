"""These tests run the steps of action.yml as GitHub does, as far as no network is needed: pip is not
called, and ``gh`` is a program that writes down what it is asked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fx_explorer.cli import COMMANDS
from tests.conftest import ROOT, Captured
from tests.report.test_sarif import check_format

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())

STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]

FAKE_GH = f"""\
#!{sys.executable}
import json, os, sys
with open(os.environ["GH_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
    for word in sys.argv[1:]:
        if word.startswith("body=@"):
            log.write(json.dumps(open(word[6:]).read()) + "\\n")
if "--paginate" in sys.argv and os.environ.get("OURS"):
    print(os.environ["OURS"])
sys.exit(int(os.environ.get("GH_EXIT", "0")) if "--method" in sys.argv else 0)
"""


class Runner:
    """Runs steps of the action in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs: dict[str, str] = {}
        programs = folder / "bin"
        programs.mkdir()
        gh = programs / "gh"
        gh.write_text(FAKE_GH)
        gh.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_WORKSPACE": str(folder),
            "GITHUB_REPOSITORY": "ann/nets",
            "GH_LOG": str(folder / "gh.log"),
        }

    def run(
        self, name: str, inputs: dict[str, str], **variables: str
    ) -> subprocess.CompletedProcess[str]:
        (step,) = [step for step in STEPS if step["name"] == name]
        given = {key: str(row.get("default", "")) for key, row in ACTION["inputs"].items()} | inputs
        values = {f"inputs.{key}": value for key, value in given.items()}
        values |= {f"steps.check.outputs.{key}": value for key, value in self.outputs.items()}
        values |= {"github.event.pull_request.number": "7", "github.token": "token"}
        environment = {
            key: re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], str(text))
            for key, text in step.get("env", {}).items()
        }
        # As the runner calls a step with ``shell: bash``.
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder, env={**self._environment, **environment, **variables},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        output = self.folder / "output"
        if output.exists():
            lines = output.read_text().splitlines()
            self.outputs = dict(line.split("=", 1) for line in lines)
        return ended

    @property
    def asked(self) -> list[Any]:
        log = self.folder / "gh.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def runner(tmp_path: Path, captured: Captured) -> Runner:
    shutil.copy(captured("graph_breaks"), tmp_path / "my net.fxs")
    return Runner(tmp_path)


INPUTS = {
    "python": sys.executable,
    "target": "my net.fxs",
    "arguments": "--max-graph-breaks 0 --own 'a folder; echo no'",
}


def test_a_check_that_fails_is_annotated_summarised_and_fails_the_job(runner: Runner) -> None:
    inputs = {**INPUTS, "arguments": "--max-graph-breaks 0"}
    ended = runner.run("Check", inputs)
    assert ended.returncode == 0, ended.stderr
    assert "::error " in ended.stdout
    assert runner.outputs["exit-code"] == "1"
    check_format(Path(runner.outputs["sarif"]).read_text())
    assert "<testsuites" in Path(runner.outputs["junit"]).read_text()
    assert "graph breaks hit" in (runner.folder / "summary").read_text()
    assert runner.run("Verdict", inputs).returncode == 1


def test_words_of_inputs_are_not_run_by_the_shell(runner: Runner) -> None:
    ended = runner.run("Check", INPUTS)
    assert runner.outputs["exit-code"] == "0", ended.stderr
    attack = {**INPUTS, "arguments": "--max-graph-breaks 99 $(touch owned) `touch owned`"}
    runner.run("Check", attack)
    assert runner.outputs["exit-code"] == "2"
    assert not (runner.folder / "owned").exists()


def test_without_a_target_the_table_is_checked(runner: Runner) -> None:
    table = '[tool.fx-explorer.check.net]\ntarget = "my net.fxs"\nmax-graph-breaks = 99\n'
    (runner.folder / "pyproject.toml").write_text(table)
    inputs = {**INPUTS, "target": "", "arguments": ""}
    ended = runner.run("Check", inputs)
    assert runner.outputs["exit-code"] == "0", ended.stderr
    assert "net: all met" in (runner.folder / "summary").read_text()


def test_the_comment_is_written_once_and_then_replaced(runner: Runner) -> None:
    runner.run("Check", INPUTS)
    assert runner.run("Comment", INPUTS).returncode == 0
    _, written, body = runner.asked
    assert written[:4] == ["api", "--method", "POST", "repos/ann/nets/issues/7/comments"]
    assert body.startswith("<!-- fx-explorer check -->\n")
    assert "torch.compile" in body
    assert runner.run("Comment", INPUTS, OURS="41").returncode == 0
    written = runner.asked[-2]
    assert written[:4] == ["api", "--method", "PATCH", "repos/ann/nets/issues/comments/41"]


def test_a_token_that_may_not_write_fails_nothing(runner: Runner) -> None:
    runner.run("Check", INPUTS)
    ended = runner.run("Comment", INPUTS, GH_EXIT="1")
    assert ended.returncode == 0
    assert "::notice::" in ended.stdout


def test_without_a_result_nothing_is_commented(runner: Runner) -> None:
    inputs = {**INPUTS, "arguments": "--no-such-option"}
    runner.run("Check", inputs)
    assert runner.outputs["exit-code"] == "2"
    assert runner.run("Comment", inputs).returncode == 0
    assert runner.asked == []
    assert runner.run("Verdict", inputs).returncode == 2


def test_no_expression_stands_in_a_script() -> None:
    """GitHub puts the text of an expression into the script, which the shell then runs."""
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]


def test_the_hook_of_pre_commit_is_a_command_of_ours() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, command = hook["entry"].split()
    assert program == "fx-explorer"
    assert command in COMMANDS
    assert hook["pass_filenames"] is False
    command_line = [
        sys.executable,
        "-m",
        "pre_commit",
        "validate-manifest",
        ".pre-commit-hooks.yaml",
    ]
    subprocess.run(command_line, cwd=ROOT, check=True, timeout=60)


def test_the_workflow_that_the_page_shows_has_inputs_that_there_are() -> None:
    page = (ROOT / "docs" / "share" / "check.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    workflows = [yaml.safe_load(block) for block in blocks]
    used: list[dict[str, Any]] = []
    for workflow in workflows:
        for job in workflow.get("jobs", {}).values() if isinstance(workflow, dict) else ():
            used += [step for step in job["steps"] if "fx-explorer@" in step.get("uses", "")]
    assert used
    for step in used:
        assert set(step.get("with", {})) <= set(ACTION["inputs"])
