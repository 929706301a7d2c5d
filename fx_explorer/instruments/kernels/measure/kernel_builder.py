"""This module is the builder: a process like the worker, for one virtual GPU, that compiles kernels
of sessions to machine code.

Its first line of input is the GPU, and each further line a ``BuildRequest``, which it answers with
one ``BuildAnswer``. What it finds goes into the session. It runs no program, so it may stay for as
long as somebody looks. LLVM may abort it at any request; the client sees that. Where Triton refuses
the user's own kernel, the answer names the line of the user's file: Triton itself counts lines from
the function's ``def``.

The process confines itself before it compiles anything: a second wall behind
session/untrusted/triton_source.py. It gains no privileges, dumps no memory to disk, and has limits
on its memory, its processor time and the files it writes. It may write files wherever the user may:
Landlock and seccomp are not used.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath

from fx_explorer.capture.virtual_gpu.building import Built, Toolchain
from fx_explorer.capture.virtual_gpu.cache_directories import not_written
from fx_explorer.capture.virtual_gpu.triton_kernel import (
    CannotBuild,
    TritonKernel,
    loaded,
    loaded_of_a_stranger,
)
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.model import (
    SOURCE_LEVEL,
    Artifact,
    BuildAnswer,
    BuildRequest,
    Gpu,
    Kernel,
    KernelBuild,
    Level,
    LineSource,
    SourceFile,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.levels import add_level

PR_SET_NO_NEW_PRIVS = 38
"""The constant's value in linux/prctl.h."""

MEMORY_BYTES = 16 << 30
FILE_BYTES = 4 << 30
CPU_S = 900
"""Processor time allowed for one request, in seconds. LLVM takes seconds for most kernels, and
minutes for the largest.
"""


def confine() -> None:
    """Confine this process permanently, with all processes that it starts (ptxas, nvdisasm)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, MEMORY_BYTES)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)


def renew_cpu_time() -> None:
    """Give the next request its own processor time. When the time is up, SIGXCPU ends the
    process.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    wanted = int(used.ru_utime + used.ru_stime) + CPU_S
    # The hard limit stays: a process that lowers it cannot raise it again for the next request.
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (wanted, hard))


def _limit(what: int, most: int) -> None:
    """Set a limit, but never above the one in force."""
    hard = resource.getrlimit(what)[1]
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(ValueError, OSError):  # a system that lacks this limit has the others
        # The hard limit too, or the code that is confined could lift the other.
        resource.setrlimit(what, (limit, limit))


QUOTED = "\n"
"""Inductor compiles a kernel's source with the line feed after its triple quotes, so we compile it
with that line feed too.
"""

NOTHING_TO_BUILD = "a library call is not compiled here: the library chooses its kernel on the GPU"


PR_SET_PDEATHSIG = 1
"""The constant's value in linux/prctl.h. Triton exists on Linux only."""


def main(notices: int, commands: int) -> None:
    # However the client ends, this process must end too: LLVM may compute for minutes, and
    # meanwhile nobody would read that the commands are at their end.
    """Report whether kernels can be built here, then answer requests until there are no more."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    confine()
    lines = _lines(commands)
    try:
        builder = KernelBuilder(Toolchain(Gpu.from_json(json.loads(next(lines)))))
    except ImportError as error:
        _write_answer(notices, BuildAnswer(0, "refused", text=_missing(error)))
        os._exit(4)
    except FxExplorerError as error:
        _write_answer(
            notices, BuildAnswer(0, "refused", text=f"kernels cannot be compiled here: {error}")
        )
        os._exit(4)
    except Exception as error:  # noqa: BLE001 - whatever a release of torch or triton lacks
        _write_answer(notices, BuildAnswer(0, "refused", text=_cannot(error)))
        os._exit(4)
    _write_answer(notices, BuildAnswer(0, "ready", text=builder.toolchain.name))
    for line in lines:
        request = BuildRequest.from_json(line)
        if request.task == "quit":
            break
        _write_answer(notices, builder.answer(request))
    os._exit(0)


def _missing(error: ImportError) -> str:
    return (
        f"kernels are compiled with torch and triton, and {sys.executable} lacks one of them "
        f"({error}). Install both there, or choose another interpreter with --python."
    )


def _cannot(error: Exception) -> str:
    from fx_explorer.capture.virtual_gpu.installing import other_triton, versions

    if unwritten := not_written(error):
        return f"kernels cannot be compiled here: {unwritten}"
    why = f"kernels cannot be compiled with {versions()}: {type(error).__name__}: {error}"
    return ". ".join(filter(None, (why, other_triton())))


def _lines(descriptor: int) -> Iterator[str]:
    with os.fdopen(descriptor, encoding="utf-8") as commands:
        yield from commands


def _write_answer(descriptor: int, answer: BuildAnswer) -> None:
    line = answer.to_json().encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]


class KernelBuilder:
    """Answers requests. It keeps the kernels it has loaded, so that a kernel's next configuration
    starts at once.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self.toolchain = toolchain
        self._loaded: dict[tuple[str, str, bool], TritonKernel] = {}

    def answer(self, request: BuildRequest) -> BuildAnswer:
        """Answer a request. It never raises, whatever is wrong with the kernel or the session."""
        began = time.monotonic()
        renew_cpu_time()
        try:
            answer = self._answer(request)
        except (FxExplorerError, CannotBuild, KeyError, OSError) as error:
            # The text of a KeyError is its message in quotes.
            answer = BuildAnswer(
                request.number, "refused", text=not_written(error) or str(error).strip("'\"")
            )
        return replace(answer, number=request.number, seconds=time.monotonic() - began)

    def _answer(self, request: BuildRequest) -> BuildAnswer:
        with SessionReader(request.session) as reader, SessionWriter(request.session) as writer:
            work = _Work(self, reader, writer, reader.get(Kernel, request.kernel), request.is_own)
            if request.task == "candidates":
                return work.list_candidates()
            if request.task == "passes":
                return work.dump_passes(request.position)
            row = work.resources(request.position)
            if request.task == "build" and row.state == "built":
                row = work.add_sass(row)
            if row.state == "built":
                return BuildAnswer(0, "built", row.id, row.error)
            return BuildAnswer(0, "failed", row.id, row.error)

    def load(self, name: str, source: str, is_own: bool) -> TritonKernel:
        """Return the kernel. An untrusted source is read before it is run. Raises CannotBuild."""
        if (name, source, is_own) not in self._loaded:
            if is_own:
                self._loaded[name, source, is_own] = loaded(name, source)
            else:
                self._loaded[name, source, is_own] = loaded_of_a_stranger(name, source)
        return self._loaded[name, source, is_own]


class _Work:
    """Carries out one request, for one kernel of a session."""

    def __init__(
        self,
        builder: KernelBuilder,
        reader: SessionReader,
        writer: SessionWriter,
        kernel: Kernel,
        is_own: bool,
    ) -> None:
        self._builder = builder
        self._is_own = is_own
        self._toolchain = builder.toolchain
        self._reader = reader
        self._writer = writer
        self._kernel = kernel

    def list_candidates(self) -> BuildAnswer:
        """List the kernel's configurations. ``text`` of the answer is their number."""
        rows = self._candidates()
        first, count = rows[0], f"{len(rows)}"
        if first.error and not first.options:
            return BuildAnswer(0, "failed", first.id, count)
        return BuildAnswer(0, "candidates", first.id, count)

    def resources(self, position: int) -> KernelBuild:
        """Return the row of a configuration, compiled unless the same toolchain has done so. Raises
        UsageError.
        """
        row = self._row(position)
        if row.state == "candidate" or row.toolchain != self._toolchain.name:
            row = self._built(row)
            self._add_smaller_blocks()
        return row

    def add_sass(self, row: KernelBuild) -> KernelBuild:
        if "sass" in row.levels or "ptx" not in row.levels:
            return row
        text = self._toolchain.sass(*self._loaded(row))
        with self._writer.transaction():
            row = self._as_it_is_now(row)
            if "sass" in row.levels:
                return row
            return self._kept(
                replace(row, levels={**row.levels, **self._add_levels({"sass": text})})
            )

    def dump_passes(self, position: int) -> BuildAnswer:
        row = self._row(position)
        if not row.passes:
            try:
                dump = self._toolchain.passes(*self._loaded(row))
            except CannotBuild as error:
                return BuildAnswer(
                    0, "failed", row.id, with_places(self._reader, self._kernel, str(error))
                )
            with self._writer.transaction():
                row = self._as_it_is_now(row)
                if not row.passes:
                    self._kept(replace(row, passes=self._writer.text(dump)))
        return BuildAnswer(0, "built", row.id)

    def _row(self, position: int) -> KernelBuild:
        rows = self._candidates()
        if not 0 <= position < len(rows):
            raise UsageError(
                f"{self._kernel.name} has no configuration {position}: they are numbered from 0 "
                f"to {len(rows) - 1}"
            )
        if rows[position].origin == "library":
            raise UsageError(NOTHING_TO_BUILD)
        return rows[position]

    def _rows(self) -> list[KernelBuild]:
        builds = self._reader.rows(
            KernelBuild, kernel=self._kernel.id, gpu=self._toolchain.gpu.name
        )
        return sorted(builds, key=lambda row: row.position)

    def _candidates(self) -> list[KernelBuild]:
        """Return the rows of the configurations, which are made once per session. The transaction
        checks whether another builder has made them already.
        """
        if not self._rows():
            made = self._new_candidates()
            with self._writer.transaction():
                if not self._rows():
                    for row in made:
                        self._writer.add(row)
        return self._rows()

    def _new_candidates(self) -> list[KernelBuild]:
        """Return new rows. A kernel that cannot even be loaded gets one row with the reason."""
        first = KernelBuild(0, self._kernel.id, 0, {}, self._toolchain.gpu.name)
        try:
            kernel, _ = self._loaded(first)
        except CannotBuild as error:
            return [
                replace(first, state="failed", toolchain=self._toolchain.name, error=str(error))
            ]
        return [
            replace(first, position=i, options=options) for i, options in enumerate(kernel.options)
        ]

    def _loaded(self, row: KernelBuild) -> tuple[TritonKernel, int]:
        """Return the kernel, and the position of the row among its configurations. A template's
        other choices each have their own source.
        """
        if row.source:
            return self._builder.load(
                row.name or self._kernel.name, self._reader.text(row.source), self._is_own
            ), 0
        artifact = self._reader.get(Artifact, self._kernel.artifact)
        kernel = self._builder.load(
            self._kernel.name, QUOTED + self._reader.text(artifact.text), self._is_own
        )
        rows = [other for other in self._rows() if not other.source and other.origin != "library"]
        self._complete(kernel, rows)
        positions = [other.position for other in rows]
        index = positions.index(row.position) if row.position in positions else 0
        return kernel, index

    def _complete(self, kernel: TritonKernel, rows: list[KernelBuild]) -> None:
        """Add the configurations with smaller blocks that an earlier builder found, since a
        restarted builder does not know them.
        """
        if len(rows) > len(kernel.configs):
            first = [row for row in rows if row.origin != "smaller_block"]
            kernel.add_smaller_blocks([row.registers for row in first])

    def _add_smaller_blocks(self) -> None:
        rows = self._rows()
        heuristic = [row for row in rows if row.origin == "heuristic" and not row.source]
        if len(heuristic) < len(rows) or any(row.state != "built" for row in heuristic):
            return
        kernel, _ = self._loaded(heuristic[0])
        if len(kernel.configs) == len(heuristic):
            kernel.add_smaller_blocks([row.registers for row in heuristic])
        with self._writer.transaction():
            # Another builder may have added them meanwhile.
            if len(self._rows()) == len(rows):
                for position, options in list(enumerate(kernel.options))[len(heuristic) :]:
                    row = KernelBuild(
                        0,
                        self._kernel.id,
                        position,
                        options,
                        self._toolchain.gpu.name,
                        origin="smaller_block",
                    )
                    self._writer.add(row)

    def _built(self, row: KernelBuild) -> KernelBuild:
        lines_before = 0 if row.source else len(QUOTED)
        row = replace(row, toolchain=self._toolchain.name, lines_before=lines_before, error="")
        try:
            kernel, index = self._loaded(row)
            built = self._toolchain.build(kernel, index)
        except CannotBuild as error:
            message = with_places(self._reader, self._kernel, str(error))
            return self._kept(replace(row, state="failed", error=message))
        with self._writer.transaction():
            now = self._as_it_is_now(row)
            if now.state == "built" and now.toolchain == row.toolchain:
                return now
            levels = {**_users_source(row), **self._add_levels(built.texts)}
            done = replace(row, state="built", file=built.file, levels=levels)
            return self._kept(with_resources(done, built))

    def _as_it_is_now(self, row: KernelBuild) -> KernelBuild:
        """Read the row from the session again, since another builder may have built it: then its
        texts are linked and shown.
        """
        return self._reader.get(KernelBuild, row.id)

    def _add_levels(self, texts: Mapping[Level, str]) -> dict[str, int]:
        return {
            level: add_level(self._writer, self._kernel, level, text)
            for level, text in texts.items()
        }

    def _kept(self, row: KernelBuild) -> KernelBuild:
        self._writer.update(row)
        return row


def _users_source(row: KernelBuild) -> dict[str, int]:
    if row.source_artifact:
        return {SOURCE_LEVEL: row.source_artifact}
    return {}


def with_resources(row: KernelBuild, built: Built) -> KernelBuild:
    return replace(
        row,
        threads=built.threads,
        registers=built.used.registers,
        spill_bytes=built.used.spill_bytes,
        stack_bytes=built.used.stack_bytes,
        shared_bytes=built.shared_bytes,
        duration_s=built.duration_s,
    )


# Where Triton refuses the user's own kernel.


_PLACE = re.compile(r"\bat (\d+):\d+:\n")
"""Matches the place in a message of ``CompilationError._format_message``
(triton/compiler/errors.py). The function's text down to that line follows, and a ``^``.
"""

_CARET = re.compile(r"^\s*\^\s*$")


def with_places(reader: SessionReader, kernel: Kernel, error: str) -> str:
    """Return ``error`` with ``model.py:12,`` before each place that is a line of the user's kernel,
    or of one of its helpers.
    """
    lines = reader.text(reader.get(Artifact, kernel.artifact).text).split("\n")

    def named(place: re.Match[str]) -> str:
        at = _line_of(lines, error[place.end() :], int(place[1]))
        if at:
            rows = reader.rows(LineSource, artifact=kernel.artifact, line=at, how="copied")
        else:
            rows = []
        if rows:
            file = PurePath(reader.get(SourceFile, rows[0].file).path).name
        else:
            file = ""
        if rows:
            return f"{file}:{rows[0].source_line}, {place[0]}"
        return place[0]

    return _PLACE.sub(named, error)


def _line_of(lines: list[str], message: str, number: int) -> int:
    """Return the line (from 1) of the kernel's source that is the ``number``-th line of its
    function; 0 when none or several match.

    The message begins with the function's text.
    """
    shown = message.split("\n")
    end = next((i for i, line in enumerate(shown) if _CARET.match(line)), 0)
    ends = [i for i in range(end, len(lines) + 1) if end and lines[i - end : i] == shown[:end]]
    # A smaller one would count from the end of the list.
    fitting = [i for i in ends if i >= number and lines[i - number].startswith("def ")]
    return fitting[0] if len(fitting) == 1 else 0
