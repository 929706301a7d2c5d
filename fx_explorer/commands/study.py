"""``fx-explorer study X -o page.html``: everything that can be learned of a program, in one go, as
one page.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from pathlib import Path

from fx_explorer.client import session_files
from fx_explorer.client.session_files import (
    copy_session,
    files_of,
    place_session,
    session_content,
    session_file,
)
from fx_explorer.command_line.capture_options import add_budget_argument, add_capture_arguments
from fx_explorer.command_line.given_session import (
    add_target_argument,
    answer_from,
    check_program,
    is_session,
    shown_name,
)
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.command_line.outputs import START, add_force_argument, of_this_rank
from fx_explorer.command_line.stopping import run_until_stopped
from fx_explorer.commands.capture import default_output
from fx_explorer.errors import UsageError
from fx_explorer.findings.diagnosis import Diagnosis
from fx_explorer.findings.report import finding_lines
from fx_explorer.findings.study import Study
from fx_explorer.model.study import StudyPart
from fx_explorer.output.terminal import Hanging, print_fitted
from fx_explorer.output_file import OutputFile
from fx_explorer.session import SessionReader
from fx_explorer.session.in_page import SIGN as PAGE_SIGN
from fx_explorer.trials import TrialWorker, forking_worker

BUDGET_S = 1800.0


EPILOG = """\
The program is captured with its kernels built. Then it tries remedies and fixes, compares results
with eager mode, shows where the time of one call goes, and measures backends and modes, each in its
own processes. Everything goes into one session, which the page contains.

A part that fails or runs out of time does not stop the others. Run study on the page again to do
only the missing parts.

examples:
  fx-explorer study model.py -o model.html               half an hour at most
  fx-explorer study model.py -o model.html --budget 600  ten minutes at most
  fx-explorer study model.html -o model.html             once more: what is missing
  fx-explorer study train.fxs -o train.fxs               of a session, kept as a session

exit codes: 0 no problem was found · 1 there is one, or a part is missing · and those of every
command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to write")
    what.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="a page (.html) or a session (.fxs); default: the target's name with .html",
    )
    add_budget_argument(what, BUDGET_S, "the time for all parts after the capture")
    add_force_argument(what)
    add_capture_arguments(parser, build=True)


def run(arguments: argparse.Namespace) -> int:
    """Study the program. Returns 1 where there is a problem or a part is missing, else how the
    capture ended.
    """
    if arguments.output is None:
        name = default_output(shown_name(arguments))
        arguments.output = Path(name).with_suffix(".html")
    output = _output(arguments)
    check_program(arguments)  # before anything is run
    folder, lock = session_files.new_capture_directory()
    session = folder / session_files.SESSION
    try:
        ended = _capture(arguments, session)
        if not session.exists():
            return ended
        study = Study(session, shown_name(arguments), _worker(arguments), _Narration().print)
        stopped_by = asyncio.run(run_until_stopped(study.run(arguments.budget)))
        with SessionReader(session) as reader:
            diagnosis = Diagnosis.of(reader)
            _write(reader, output)
        _print(study.parts, diagnosis)
        print_fitted(f"written: {output.path} (look at it with: fx-explorer {output.path})")
        if any(part.is_missing for part in study.parts):
            print_fitted(
                f"to do the missing parts: fx-explorer study {output.path} -o {output.path}"
            )
        if stopped_by:
            return 128 + stopped_by
        is_missing = any(part.is_missing for part in study.parts)
        return ended or int(is_missing or diagnosis.has_problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _output(arguments: argparse.Namespace) -> OutputFile:
    """Return the place of the page or session. A page or session that is studied may be replaced:
    what is written has all that it had. Raises UsageError where it cannot be written, or its name
    says neither.
    """
    path = of_this_rank(arguments.output)
    never = () if is_session(arguments.target) else files_of(arguments.target)
    suffix = path.suffix.lower()
    if suffix == ".html":
        output = OutputFile(path, "report", _is_our_page, arguments.force, never, "-o FILE")
    elif suffix == ".fxs":
        output = session_file(path, force=arguments.force, never=never)
    else:
        raise UsageError(f"-o {path}: the file must be a page (.html) or a session (.fxs)")
    output.check()
    return output


def _is_our_page(file: Path) -> bool:
    with file.open("rb") as opened:
        return PAGE_SIGN in opened.read(START)


def _capture(arguments: argparse.Namespace, session: Path) -> int:
    """Capture the program into ``session``, or copy the session that is given there. Returns how
    the capture ended.
    """
    if is_session(arguments.target):
        answer_from(arguments, lambda _: None)  # refuses options of a capture
        copy_session(Path(arguments.target), session_file(session))
        return 0
    return answer_from(arguments, lambda _: None, session) or 0


def _worker(arguments: argparse.Namespace) -> TrialWorker:
    return forking_worker(arguments.python, arguments.timeout)


class _Narration:
    """Prints what the study does, each step once."""

    def __init__(self) -> None:
        self._out = CaptureNarration(sys.stderr, pass_through=False)
        self._printed = ""

    def print(self, text: str) -> None:
        if text != self._printed:
            self._out.print_message(text)
        self._printed = text


def _write(reader: SessionReader, output: OutputFile) -> None:
    if output.path.suffix.lower() == ".fxs":
        place_session(reader.path, output)
        return
    from fx_explorer.report.page.page import html_page

    page = html_page(reader, session_content(reader.path))
    output.write_text(page, errors="backslashreplace")


def _print(parts: list[StudyPart], diagnosis: Diagnosis) -> None:
    """Print the findings, then how each part ended."""
    for line in finding_lines(diagnosis.findings):
        print_fitted(line)
    if not diagnosis.findings:
        print_fitted(f"No problem was found. {diagnosis.search.summary}.")
    for part in parts:
        print_fitted(Hanging(f"{part.name}: ", f"{part.state}: {part.text}"))
        if part.is_missing:
            print_fitted(f"    by itself: {part.command}")
