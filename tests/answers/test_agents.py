"""These tests check what agents use beside ``ask``: the server of the Model Context Protocol, with
a real client; the skill; all commands as data.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fx_explorer.answers.questions import QUESTIONS
from fx_explorer.cli import COMMANDS, EPILOG, main, module_of
from fx_explorer.command_line.help_text import HelpParser
from fx_explorer.commands import mcp as mcp_command
from fx_explorer.commands.skill import skill_text
from tests.conftest import ROOT

mcp_client = pytest.importorskip("mcp.client")
stdio = pytest.importorskip("mcp.client.stdio")

WHOLE = ROOT / "tests" / "data" / "screens" / "whole.fxs.gz"

PROGRAM = """\
import torch

def double(x):
    return x.relu() * 2

def get_inputs():
    return (torch.ones(3),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "whole.fxs").write_bytes(gzip.decompress(WHOLE.read_bytes()))
    (folder / "model.py").write_text(PROGRAM)
    (tmp_path / "outside.fxs").write_bytes(b"not for the client")
    (folder / "link.fxs").symlink_to(tmp_path / "outside.fxs")
    (folder / "logs").mkdir()
    (folder / "logs" / "raw.log").symlink_to(tmp_path / "outside.fxs")
    return folder


@asynccontextmanager
async def client(*words: str) -> AsyncIterator[Any]:
    """Connect to ``fx-explorer mcp`` as a client does."""
    parameters = stdio.StdioServerParameters(
        command=sys.executable, args=["-m", "fx_explorer", "mcp", *words]
    )
    async with mcp_client.Client(
        stdio.stdio_client(parameters), read_timeout_seconds=120
    ) as connected:
        yield connected


async def call(connected: Any, tool: str, **arguments: object) -> tuple[bool, str]:
    """Return whether a call failed, and the text that it gave."""
    result = await connected.call_tool(tool, arguments)
    return bool(result.is_error), result.content[0].text


async def test_a_client_asks_and_is_refused_what_is_outside(folder: Path) -> None:
    async with client(str(folder)) as connected:
        tools = {tool.name: tool for tool in (await connected.list_tools()).tools}
        assert {*tools} == {"ask", "list_files"}
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert all(question.name in tools["ask"].description for question in QUESTIONS)

        failed, text = await call(connected, "list_files")
        assert not failed
        assert json.loads(text)["files"] == [str(folder / "whole.fxs")]

        failed, text = await call(connected, "ask", file="whole.fxs", question="kernels", limit=2)
        assert not failed
        answer = json.loads(text)
        assert len(answer["rows"]) == 2
        assert len(text) <= 12_000

        for file in ("/etc/passwd", "../outside.fxs", "link.fxs", str(folder.parent)):
            failed, text = await call(connected, "ask", file=file)
            assert failed
            assert "is outside of the folders of this server" in text
        failed, text = await call(connected, "ask", file="logs")
        assert failed
        assert "is a link that leads outside" in text
        failed, text = await call(connected, "ask", file="none.fxs")
        assert failed
        assert "there is no file 'none.fxs'" in text
        failed, text = await call(connected, "ask", file="model.py")
        assert failed
        assert "is a program, not a session" in text
        failed, text = await call(connected, "ask", file="whole.fxs", question="everything")
        assert failed
        assert "there is no question 'everything'" in text
        failed, text = await call(connected, "capture", program="model.py")
        assert failed


async def test_a_program_is_captured_where_that_was_allowed(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    async with client(str(folder), "--allow-run") as connected:
        failed, text = await call(connected, "capture", program="model.py:double")
        assert not failed, text
        answer = json.loads(text)
        assert answer["program"] == str(folder / "model.py")
        failed, text = await call(
            connected, "ask", file=answer["session"], question="nodes", about="dynamo"
        )
        assert not failed, text
        assert "relu" in [row["name"] for row in json.loads(text)["rows"]]
        failed, text = await call(connected, "capture", program="/etc/passwd")
        assert failed
        failed, text = await call(
            connected, "capture", program="model.py:double", options=["-o", "mine.fxs"]
        )
        assert failed
        assert "-o is not available to clients" in text
    assert sorted(path.name for path in folder.iterdir()) == before
    assert not Path(answer["session"]).exists()


def test_without_the_package_the_message_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(mcp_command.importlib.util, "find_spec", lambda name: None)
    assert main(["mcp"]) == 2
    assert "pip install 'fx-explorer[mcp]'" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "/nowhere/at/all"]) == 2
    assert "there is no file or folder '/nowhere/at/all'" in capsys.readouterr().err


# The skill.


def test_the_skill_has_the_head_that_agents_read() -> None:
    _, head, body = skill_text().split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["name"] == "fx-explorer"
    assert len(fields["description"]) <= 1024
    assert "<" not in fields["description"]
    assert len(body.split("\n")) < 500


def skill_commands() -> list[str]:
    """Return every command line that the skill names."""
    lines = re.findall(r"`(fx-explorer [a-z][^`]*)`", skill_text())
    blocks = re.findall(r"^(fx-explorer [a-z].*)$", skill_text(), re.MULTILINE)
    return [*lines, *[line.partition("#")[0].strip() for line in blocks]]


@pytest.mark.parametrize("line", skill_commands())
def test_each_command_of_the_skill_is_a_command_line_that_can_be_read(line: str) -> None:
    _, name, *words = shlex.split(line.replace("[ABOUT]", ""))
    parser = HelpParser("fx-explorer", exit_on_error=False)
    importlib.import_module(module_of(name)).add_arguments(parser)
    parser.parse_args(words[: words.index("--")] if "--" in words else words)


def test_the_skill_asks_only_questions_that_exist() -> None:
    names = {question.name for question in QUESTIONS}
    table = skill_text().split("| the question | ask |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        for asked in line.rsplit("|", 2)[1].split("`")[1::2]:
            word = asked.split()[0]
            assert word in names or word == "fx-explorer", line


def test_the_skill_is_installed_and_replaces_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["skill"]) == 0
    assert capsys.readouterr().out == skill_text()
    skills = tmp_path / ".claude" / "skills"
    for _ in range(2):
        assert main(["skill", "--install", str(skills)]) == 0
    installed = skills / "fx-explorer" / "SKILL.md"
    assert installed.read_text() == skill_text()
    installed.write_text("my own\n")
    assert main(["skill", "--install", str(skills)]) == 2
    assert installed.read_text() == "my own\n"
    assert main(["skill", "--install", str(skills), "--force"]) == 0
    (tmp_path / "file").write_text("")
    assert main(["skill", "--install", str(tmp_path / "file")]) == 2


# All commands as data.


def test_the_specification_has_every_command_with_its_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--spec"]) == 0
    content = json.loads(capsys.readouterr().out)
    commands = {command["name"]: command for command in content["commands"]}
    assert {*commands} == {*COMMANDS}
    ask = commands["ask"]
    assert {"--limit", "--skip", "--match", "--fields"} <= {
        name for option in ask["options"] for name in option["names"]
    } | {*ask["shared_options"]}
    assert "--gpu" in ask["shared_options"]
    for command in commands.values():
        for name in command["shared_options"]:
            assert name in content["shared_options"]
    assert {each["name"] for each in content["questions"]} == {each.name for each in QUESTIONS}
    assert {*re.findall(r"\d+", EPILOG.split("exit codes:")[1])} >= {*content["exit_codes"]}
    assert main(["--spec", "more"]) == 2
