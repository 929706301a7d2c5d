"""This module checks the targets of a project's table, side by side: one result, one exit code."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from fx_explorer.analysis.words import counted, listed
from fx_explorer.client import Capture
from fx_explorer.client.forked_workers import fork_server
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.command_line.check_output import CheckOutput, checked_target
from fx_explorer.command_line.check_table import TABLE, TableEntry, find_table, read_table
from fx_explorer.command_line.given_files import resolve_files
from fx_explorer.command_line.given_session import is_session
from fx_explorer.command_line.judging import Judge
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.quiet_capture import captured_quietly
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.model import Outcome
from fx_explorer.output.terminal import print_fitted
from fx_explorer.report.check_formats import CheckedTarget
from fx_explorer.session import SessionReader

OF_ALL = (
    "jobs", "only", "update", "github", "junit", "sarif", "csv", "summary", "force", "python",
    "timeout",
)  # fmt: skip
"""Options that the command line may give for all targets of the table."""


def check_table(arguments: argparse.Namespace) -> int:
    """Check all targets of the table, and return the exit code: the highest of them. Raises
    UsageError where there is no table, and for what is wrong with it.
    """
    file = find_table(Path.cwd())
    if file is None:
        raise UsageError(
            "check needs a target, or a pyproject.toml with "
            f'[{TABLE}.NAME] and target = "model.py", in this folder or above it'
        )
    for name in sorted(arguments.given):
        if name not in OF_ALL:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} works on one target: name it, or write the option into {file}"
            )
    output = CheckOutput.of(arguments)
    entries = read_table(file, tuple(arguments.only))
    for entry in entries:
        _complete(entry, arguments)
    with _folder(file.parent):
        judges = [Judge(entry.arguments) for entry in entries]
        jobs = arguments.jobs or min(os.cpu_count() or 1, len(entries))
        run = _Run(entries, judges, jobs)
        results = asyncio.run(run.check_all())
    if run.stopped_by:
        print_fitted(f"fx-explorer: stopped; {len(entries)} targets are not judged", sys.stderr)
        return 128 + run.stopped_by
    output.write([target for target, _ in results])
    _print_verdict(results)
    return max(code for _, code in results)


def _complete(entry: TableEntry, arguments: argparse.Namespace) -> None:
    """Use the options of the command line that hold for all targets."""
    entry.arguments.update = arguments.update
    if arguments.update and entry.arguments.baseline is None:
        entry.arguments.update = False
    for name in ("python", "timeout"):
        if name in arguments.given:
            setattr(entry.arguments, name, getattr(arguments, name))


def _print_verdict(results: Sequence[tuple[CheckedTarget, int]]) -> None:
    failed = [printable(target.name) for target, code in results if code]
    total = counted(len(results), "target")
    if failed:
        print_fitted(f"{len(failed)} of {total} failed: {listed(failed, 20)}", sys.stderr)
    else:
        print_fitted(f"all met: {total}", sys.stderr)


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Run the block in a folder: the paths of the table are relative to its file."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


class _Run:
    """Checks targets, some at a time. A signal stops all captures."""

    def __init__(self, entries: Sequence[TableEntry], judges: Sequence[Judge], jobs: int) -> None:
        self._entries = entries
        self._judges = judges
        self._jobs = jobs
        self._running: list[Capture] = []
        self.stopped_by = 0

    async def check_all(self) -> list[tuple[CheckedTarget, int]]:
        """Return each target with its exit code, in the order of the table."""
        turns = asyncio.Semaphore(self._jobs)
        with temporary_folder() as folder, self._stopping():
            checks = [
                self._check(at, turns, folder / f"{at}.fxs") for at in range(len(self._entries))
            ]
            return list(await asyncio.gather(*checks))

    async def _check(
        self, at: int, turns: asyncio.Semaphore, session: Path
    ) -> tuple[CheckedTarget, int]:
        entry = self._entries[at]
        async with turns:
            if self.stopped_by:
                return CheckedTarget(entry.name, (), None), 128 + self.stopped_by
            try:
                return await self._checked(entry, self._judges[at], session)
            except FxExplorerError as error:
                return self._not_started(entry, str(error)), error.exit_code

    async def _checked(
        self, entry: TableEntry, judge: Judge, session: Path
    ) -> tuple[CheckedTarget, int]:
        progress = CaptureNarration(sys.stderr, pass_through=False)
        with contextlib.ExitStack() as until:
            arguments = argparse.Namespace(**vars(entry.arguments))
            resolve_files("check", arguments, until)
            if is_session(arguments.target):
                return await asyncio.to_thread(_judged, Path(arguments.target), entry, judge)
            progress.print_message(f"capturing {entry.name}")
            if self._jobs > 1:
                progress.end()  # several live lines would overwrite each other
            captured = await captured_quietly(
                arguments, session, progress, fork_server(), self._until
            )
            progress.end()
            if captured.session is None:
                return self._not_started(entry, captured.outcome.message), exit_code(
                    captured.outcome, as_script=False
                )
            return await asyncio.to_thread(_judged, captured.session, entry, judge)

    @staticmethod
    def _not_started(entry: TableEntry, message: str) -> CheckedTarget:
        return CheckedTarget(entry.name, (), Outcome("not_started", message, 2))

    @contextlib.contextmanager
    def _until(self, capture: Capture) -> Iterator[None]:
        self._running.append(capture)
        try:
            yield
        finally:
            self._running.remove(capture)

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Make Ctrl-C, SIGTERM and a closed terminal stop all captures inside the block."""
        loop = asyncio.get_running_loop()
        pending: set[asyncio.Task[Outcome]] = set()

        def stop(number: int) -> None:
            self.stopped_by = self.stopped_by or number
            for capture in self._running:
                pending.add(loop.create_task(capture.cancel()))

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in numbers:
            stop_by: Callable[[], None] = partial(stop, number)
            loop.add_signal_handler(number, stop_by)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _judged(session: Path, entry: TableEntry, judge: Judge) -> tuple[CheckedTarget, int]:
    names = (entry.name, entry.arguments.target)
    is_target = not is_session(entry.arguments.target)
    with SessionReader(session) as reader:
        with judge.judged(reader, names, is_target=is_target) as (compared, checks):
            target = checked_target(compared, checks, names)
            if target.outcome is None:
                return target, 4
            code = exit_code(target.outcome, as_script=False)
            return target, code or int(not all(check.is_met for check in checks))
