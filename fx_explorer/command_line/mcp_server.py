"""The Model Context Protocol over standard input and output: the questions of ``fx-explorer ask``
as tools. Files outside of the folders that it was given are refused. Programs are run only if that
was allowed at the start. This module needs the package mcp (the extra ``mcp``).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from fx_explorer import __version__
from fx_explorer.answers.answer import LEAST_CHARACTERS, MOST_CHARACTERS, RowSelection, answer_text
from fx_explorer.answers.questions import QUESTIONS, ask
from fx_explorer.answers.references import describe_session
from fx_explorer.command_line.given_files import open_session
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.session import SessionReader

OPEN_SESSIONS = 8
"""Maximum number of sessions that stay open: reading a log takes seconds."""

LISTED_FILES = 200
"""Maximum number of files that are listed."""

MOST_ROWS = 1_000

SUFFIXES = (".fxs", ".log", ".html", ".zip", ".tgz", ".gz", ".json", ".pickle", ".pkl", ".txt")
"""Endings of files that may be a session, or be read as one. Any other file can be named, too."""

OF_SERVER = ("-o", "--output", "--force")
"""Options of a capture that a client may not give."""

CAPTURE_SECONDS = 1_800.0

_QUESTIONS = "\n".join(f"- {question.usage}: {question.does}" for question in QUESTIONS)

INSTRUCTIONS = """\
fx-explorer says what torch.compile did to a program: graph breaks, recompiles, guards, graphs,
kernels, memory, times, each with the user's line. Begin with ask(file): it says what is wrong and
names further questions. Every answer names its session and its source (known_from); cite both,
with the line, in what you tell the user. "left_out" names what was left out of an answer; raise
skip, choose fields, or match words to see it. A figure that no answer has was not recorded:
say so, and do not guess.
"""


@dataclass(frozen=True)
class Allowed:
    """The files that a client may name."""

    roots: tuple[Path, ...]
    """Folders and files, without symbolic links."""

    def find(self, name: str) -> Path:
        """Return the file that a name means, from the first folder that has it. Raises UsageError
        for one that is not there or lies outside.
        """
        path = Path(name)
        candidates = [path] if path.is_absolute() else [root / path for root in self.folders()]
        candidates += [root for root in self.roots if root.name == name]
        inside = [each.resolve() for each in candidates if self.has(each.resolve())]
        for candidate in inside:
            if candidate.exists():
                self._check_links(candidate)
                return candidate
        shown = ", ".join(map(str, self.roots))
        if not inside:
            raise UsageError(f"{name} is outside of the folders of this server: {shown}")
        raise UsageError(f"there is no file {name!r} in {shown}; list_files names the files")

    def _check_links(self, folder: Path) -> None:
        """Raise UsageError for a folder of logs with a link that leads outside."""
        for path in folder.rglob("*"):  # nothing for a file
            if path.is_symlink() and not self.has(path.resolve()):
                raise UsageError(
                    f"{path} is a link that leads outside of the folders of this server"
                )

    def folders(self) -> Iterator[Path]:
        """Yield the folders in which a name without a path is looked for."""
        for root in self.roots:
            yield root if root.is_dir() else root.parent

    def has(self, path: Path) -> bool:
        """Return whether a path, without symbolic links, is one of the roots or inside one."""
        return any(path == root or root in path.parents for root in self.roots)


class Sessions:
    """The sessions that are open, the one used last at the end."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, int, int], _Opened] = OrderedDict()

    def reader(self, path: Path) -> SessionReader:
        """Return a session that is open already, if its file has not changed; else open it."""
        status = path.stat()
        key = (str(path), status.st_mtime_ns, status.st_size)
        if key not in self._open:
            self._open[key] = _Opened(path)
            while len(self._open) > OPEN_SESSIONS:
                _, oldest = self._open.popitem(last=False)
                oldest.close()
        self._open.move_to_end(key)
        return self._open[key].reader

    def close(self) -> None:
        for opened in self._open.values():
            opened.close()
        self._open.clear()


class _Opened:
    """A session, with what was made to read it."""

    def __init__(self, path: Path) -> None:
        self._until = contextlib.ExitStack()
        self.reader = self._until.enter_context(open_session(str(path)))

    def close(self) -> None:
        self._until.close()


class ToolCalls:
    """Answers the calls of the tools."""

    def __init__(self, allowed: Allowed, captures: Path, python: str) -> None:
        self.allowed = allowed
        self.sessions = Sessions()
        self._captures = captures
        self._python = python

    def ask(self, file: str, question: str, about: str, selection: RowSelection) -> str:
        reader = self.sessions.reader(self.allowed.find(file))

        @contextlib.contextmanager
        def other(name: str) -> Iterator[SessionReader]:
            yield self.sessions.reader(self.allowed.find(name))

        answer = ask(reader, question, about, other)
        words = f"{question} {about}".strip()
        return answer_text(words, answer, describe_session(reader, file), selection)

    def files(self) -> str:
        """Return the files that may be sessions, the newest first."""
        found: list[tuple[float, Path]] = []
        for path in self._walk():
            with contextlib.suppress(OSError):  # it may be removed meanwhile
                found.append((path.stat().st_mtime, path))
        found.sort(reverse=True)
        shown = [str(path) for _, path in found[:LISTED_FILES]]
        content = {"folders": [str(root) for root in self.allowed.roots], "files": shown}
        if len(found) > len(shown):
            content["left_out"] = [f"the newest {len(shown)} of {len(found)} files"]
        return json.dumps(content, indent=1, ensure_ascii=False)

    def _walk(self) -> Iterator[Path]:
        for root in self.allowed.roots:
            if root.is_file():
                yield root
            for folder, folders, names in os.walk(root):
                folders[:] = [name for name in folders if not name.startswith(".")]
                for name in names:
                    path = Path(folder, name)
                    if name.endswith(SUFFIXES) and self.allowed.has(path.resolve()):
                        yield path

    async def capture(self, program: str, options: list[str], selection: RowSelection) -> str:
        """Capture a program in a process of its own, and return the overview of the session."""
        refused = [option for option in options if option.split("=")[0] in OF_SERVER]
        if refused:
            raise UsageError(
                f"{refused[0]} is not available to clients: the server decides where "
                "files are written"
            )
        file, _, name = program.partition(":")
        path = self.allowed.find(file)
        target = f"{path}:{name}" if name else str(path)
        session = self._captures / f"{path.stem}-{len(list(self._captures.iterdir()))}.fxs"
        words = ["capture", target, "-o", str(session), *options]
        code, narration = await _run(self._python, words)
        if not session.exists():
            raise UsageError(f"nothing was captured (exit code {code}): {narration}")
        return self.ask(str(session), "overview", "", selection)


async def _run(python: str, words: list[str]) -> tuple[int, str]:
    """Run a command of fx-explorer; return its exit code, and the end of what it said."""
    process = await asyncio.create_subprocess_exec(
        python, "-m", "fx_explorer", *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), CAPTURE_SECONDS)
    except asyncio.TimeoutError as error:
        raise UsageError(f"it was stopped after {CAPTURE_SECONDS:,.0f} s") from error
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")[-2_000:]


def serve(roots: list[Path], *, may_run: bool) -> None:
    """Answer calls until standard input ends."""
    with temporary_folder() as captures:
        given = [root.resolve() for root in roots]
        if may_run:
            given.append(captures.resolve())
        answers = ToolCalls(Allowed(tuple(given)), captures.resolve(), sys.executable)
        try:
            server_of(answers, may_run=may_run).run()
        finally:
            answers.sessions.close()


def server_of(answers: ToolCalls, *, may_run: bool) -> MCPServer:
    """Return the server with its tools."""
    server = MCPServer(
        "fx-explorer", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    runs = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)

    @server.tool(
        name="ask",
        annotations=reads,
        structured_output=False,
        description="Answer one question about a session (.fxs), a TORCH_TRACE log, an archive or "
        "a page written by fx-explorer. Questions, with the meaning of `about` for "
        f"each:\n{_QUESTIONS}",
    )
    async def ask_question(
        file: Annotated[str, Field(description="path of the session, log, archive or page")],
        question: Annotated[str, Field(description="name of the question")] = "overview",
        about: Annotated[str, Field(description="subject of the question, e.g. model.py:12")] = "",
        match: Annotated[str, Field(description="only rows with all of these words")] = "",
        fields: Annotated[
            str, Field(description="fields of each row, separated by commas; “all” for every field")
        ] = "",
        limit: Annotated[int, Field(ge=1, le=MOST_ROWS, description="rows at most")] = 20,
        skip: Annotated[int, Field(ge=0, description="rows to leave out first")] = 0,
        characters: Annotated[
            int, Field(ge=LEAST_CHARACTERS, le=100_000, description="length at most")
        ] = MOST_CHARACTERS,
    ) -> str:
        names = [name.strip() for name in fields.split(",") if name.strip()]
        selection = RowSelection(limit, skip, match, names, characters)
        with _as_tool_error():
            return answers.ask(file, question, about, selection)

    @server.tool(
        name="list_files",
        annotations=reads,
        structured_output=False,
        description="List the files that may be sessions or logs, the newest first.",
    )
    async def list_files() -> str:
        with _as_tool_error():
            return answers.files()

    if may_run:

        @server.tool(
            name="capture",
            annotations=runs,
            structured_output=False,
            description="Run a Python program under torch.compile, record it, and give the "
            "overview. The answer's `session` is the file for further questions. It takes from "
            "seconds to minutes.",
        )
        async def capture_program(
            program: Annotated[str, Field(description="model.py, or model.py:Model")],
            options: Annotated[
                list[str] | None,
                Field(description="options of fx-explorer capture, e.g. ['--gpu', 'h100']"),
            ] = None,
        ) -> str:
            with _as_tool_error():
                return await answers.capture(program, options or [], RowSelection())

    return server


@contextlib.contextmanager
def _as_tool_error() -> Iterator[None]:
    """Raise our errors and those of files as the protocol's error, which the client is shown."""
    try:
        yield
    except (FxExplorerError, OSError) as error:
        raise ToolError(str(error)) from error
