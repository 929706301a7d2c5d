"""This module shows the instructions of a C++ kernel beside the lines they were compiled from.

The kernel's source is compiled as Inductor compiles it, with debug information, and disassembled by
``objdump`` of the GNU binutils. An instruction of an inlined function belongs to the line of the
kernel that called it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from asyncio import StreamReader
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from fx_explorer import model
from fx_explorer.client.worker_process import WorkerProcess, next_line
from fx_explorer.errors import FxExplorerError, UsageError, WorkerError
from fx_explorer.model import BenchAnswer
from fx_explorer.session import SessionReader

NO_OBJDUMP = (
    "Disassembling C++ kernels needs objdump, which is not installed. Install the GNU binutils."
)

_OPTIONS = ("-d", "-l", "--inlines", "-C", "--no-show-raw-insn", "-w")

_COMPILES_S = 300.0
"""Maximum seconds for the compiler."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
_PLACE = re.compile(r"/kernel\.cpp:(?P<line>[0-9]{1,9})(?: |$)")
_INSTRUCTION = re.compile(r"^ *(?P<address>[0-9a-f]+):\t(?P<text>.+)$")


@dataclass(frozen=True, slots=True)
class Instruction:
    function: str
    address: str
    text: str
    line: int
    """Line of the kernel's source, from 1; 0 where the compiler names none."""


def instructions(disassembly: str) -> Iterator[Instruction]:
    """Yield the instructions of the functions that have lines of the kernel in them."""
    for function, group in groupby(_instructions(disassembly), attrgetter("function")):
        listed = list(group)
        if function.startswith("kernel") or any(instruction.line for instruction in listed):
            yield from listed


def _instructions(disassembly: str) -> Iterator[Instruction]:
    function, line, is_place = "", 0, False
    for text in disassembly.split("\n"):
        instruction = _INSTRUCTION.match(text)
        if instruction:
            is_place = False
            shown = instruction["text"].replace("\t", " ").rstrip()
            yield Instruction(function, instruction["address"], shown, line)
            continue
        begins = _FUNCTION.match(text)
        if begins:
            function, line = begins["name"], 0
        elif text.startswith(("/", "inlined by ")):
            # The innermost function comes first, then those that called it.
            if not is_place:
                line, is_place = 0, True
            place = _PLACE.search(text)
            if place and not line:
                line = int(place["line"])


def interleaved(source: str, listed: Iterable[Instruction]) -> list[str]:
    """Return the instructions below the lines of the source that they are from."""
    lines = source.split("\n")
    rows: list[str] = []
    for function, of_function in groupby(listed, attrgetter("function")):
        rows += ["", f"{function}:"]
        for line, group in groupby(of_function, attrgetter("line")):
            if 0 < line <= len(lines):
                rows.append(f"{line:>5}  {lines[line - 1].strip()}")
            else:
                rows.append("    –  made by the compiler, or from no line of the kernel")
            for instruction in group:
                rows.append(f"         {instruction.address:>6}  {instruction.text}")
    return rows[1:]


async def assembly_text(reader: SessionReader, kernel: model.Kernel, python: str) -> str:
    """Return a C++ kernel's instructions with its lines. Raises UsageError without objdump or a
    compiler, FxExplorerError where the compiler refuses the kernel.
    """
    objdump = shutil.which("objdump")
    if objdump is None:
        raise UsageError(NO_OBJDUMP)
    source = reader.text(reader.get(model.Artifact, kernel.artifact).text)
    with tempfile.TemporaryDirectory(prefix="fx-explorer-") as folder:
        (Path(folder) / "kernel.cpp").write_text(source, encoding="utf-8")
        _run(await _command(folder, python), kernel.name)
        disassembly = _run([objdump, *_OPTIONS, f"{folder}/kernel.o"], kernel.name)
    rows = interleaved(source, instructions(disassembly))
    return "\n".join([f"{kernel.name}, compiled as Inductor does on this machine:", *rows, ""])


def _run(command: list[str], kernel: str) -> str:
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILES_S, check=False
        )
    except OSError as error:
        raise UsageError(
            f"{command[0]}, Inductor's C++ compiler, cannot be started: {error}"
        ) from error
    if ended.returncode:
        raise FxExplorerError(f"{kernel} cannot be compiled:\n{ended.stderr.strip()}")
    return ended.stdout


async def _command(folder: str, python: str) -> list[str]:
    """Return how Inductor calls its compiler, asked of the user's interpreter."""
    answers: list[BenchAnswer] = []
    printed: list[str] = []

    async def read(pipe: StreamReader) -> None:
        while line := await next_line(pipe):
            answers.append(BenchAnswer.from_json(line.decode()))

    async def keep(pipe: StreamReader) -> None:
        while line := await next_line(pipe):
            printed.append(line.decode(errors="backslashreplace").rstrip())

    process = WorkerProcess(
        python or sys.executable, job="instruments.kernels.measure.cpp_compiler"
    )
    await process.run(folder, _COMPILES_S, notices=read, stdout=keep, stderr=keep)
    if not answers:
        raise WorkerError(
            "\n".join(["Inductor's compiler could not be determined:", *printed[-5:]])
        )
    if answers[-1].refused:
        raise UsageError(f"Inductor names no C++ compiler here: {answers[-1].text}")
    command: list[str] = json.loads(answers[-1].text)
    return command
