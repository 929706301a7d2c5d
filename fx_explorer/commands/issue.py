"""``fx-explorer issue X -o FOLDER``: a draft of an issue, as the form of PyTorch, vLLM or
transformers asks for it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.client.session_files import copy_session, session_content
from fx_explorer.command_line.capture_options import add_budget_argument, add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from, check_program
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.model import CaptureRequest
from fx_explorer.output_file import OutputFile, never_ours
from fx_explorer.report.issue_ablation import Ablation, ablate
from fx_explorer.report.issue_draft import (
    FORMS,
    NOT_RUN,
    DraftedIssue,
    Form,
    compared,
    issue_text,
)
from fx_explorer.report.issue_minified import Minified, minify
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.trials import forking_worker, why_not_measured

BUDGET_S = 900.0

FOLDER = "issue-draft"

TRACE = "torch_trace"
"""Folder of torch's log of the unchanged program."""

COLLECT_S = 120.0
"""Seconds that torch's own list of versions may take."""

EPILOG = """\
The program is run without torch.compile, unchanged, with each backend (eager, aot_eager, inductor),
and with suspect parts of the compiler switched off, each run in its own process. A table
shows which runs pass, fail, differ or take too long; the first backend with the fault names
the component.

FOLDER gets issue.md, the session, the page for the browser, torch's log (TORCH_TRACE) of the
unchanged program, your file, and attachments.zip with all of these. Read them before you send them:
they contain your source and your program's output. --minify lets torch's minifier remove operations
from the graph as long as the fault remains.

examples:
  fx-explorer issue train.py -o draft                    everything that PyTorch's form asks for
  fx-explorer issue model.py:Model -o draft --budget 300
  fx-explorer issue train.py -o draft --minify           with the smallest graph that shows it
  fx-explorer issue train.py -o draft --form vllm        as vLLM's form asks for it
  fx-explorer issue model.fxs -o draft                   of a session, whose program is run again

exit codes: 0 the program fails or differs only with torch.compile · 1 it does not · and those
of every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to write")
    what.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        type=Path,
        default=Path(FOLDER),
        help=f"a new folder for the draft (default: {FOLDER})",
    )
    what.add_argument(
        "--form",
        choices=list(FORMS),
        default="pytorch",
        help="the project whose issue form is used (default: pytorch)",
    )
    what.add_argument(
        "--minify",
        action="store_true",
        help="make the graph smaller with torch's minifier; this may take minutes",
    )
    add_budget_argument(what, BUDGET_S)
    add_capture_arguments(parser)


@dataclass
class _Read:
    """What is taken from the session."""

    request: CaptureRequest | None = None
    programs: dict[str, str] | None = None
    page: str = ""
    target: str = ""
    is_script: bool = False


def run(arguments: argparse.Namespace) -> int:
    """Write the draft. Returns 1 where nothing fails or differs with torch.compile alone."""
    folder: Path = arguments.output
    if folder.exists():
        raise UsageError(f"{folder} already exists: name a new folder")
    check_program(arguments)  # before anything is written
    read = _Read()

    def look(reader: SessionReader) -> None:
        _look(reader, read)
        try:
            folder.mkdir(mode=0o700, parents=True)
            copy_session(reader.path, OutputFile(folder / "session.fxs", "session", never_ours))
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from error

    ended = answer_from(arguments, look) or 0
    if read.request is None:
        if not folder.exists():
            return ended
        raise UsageError(
            f"{arguments.target} does not say how to run its program: give the target itself"
        )
    problem = "" if read.is_script else why_not_measured(read.request)
    if problem:
        raise UsageError(f"the program cannot be run with other settings: {problem}")
    ablation, minified = asyncio.run(_tried(read.request, arguments, read.is_script))
    _write(arguments, read, ablation, minified)
    print(f"{folder}/issue.md: {_verdict(ablation)}")
    if minified is not None:
        print(minified.sentence.replace("`", ""))
    return 0 if ablation.is_reproduced else 1


def _look(reader: SessionReader, read: _Read) -> None:
    from fx_explorer.report.page.page import html_page

    read.request = reader.request()
    read.is_script = reader.is_of_a_script()
    target = str((reader.meta("target") or {}).get("file") or "")
    programs = {}
    for file in reader.rows(model.SourceFile, is_user=True):
        if file.text:
            programs[file.path] = reader.text(file.text)
    first = {target: programs.pop(target)} if target in programs else {}
    read.programs = {**first, **programs}
    read.page = html_page(reader, session_content(reader.path))
    read.target = file_name(target)


async def _tried(
    request: CaptureRequest, arguments: argparse.Namespace, is_script: bool
) -> tuple[Ablation, Minified | None]:
    """Run the program in each way, and torch's minifier where it is asked for."""
    ends_at = time.monotonic() + arguments.budget
    worker = forking_worker(arguments.python, arguments.timeout)
    trace = arguments.output / TRACE
    ablation = await ablate(
        request, worker, arguments.budget, _narrate, is_script=is_script, trace=trace
    )
    if not arguments.minify:
        return ablation, None
    left_s = ends_at - time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fx-explorer-minifier-") as folder:
        minified = await minify(request, worker, ablation, Path(folder), left_s, _narrate)
    return ablation, minified


def _narrate(text: str) -> None:
    print(f"fx-explorer: {printable(text)}", file=sys.stderr, flush=True)


def _write(
    arguments: argparse.Namespace, read: _Read, ablation: Ablation, minified: Minified | None
) -> None:
    folder: Path = arguments.output
    names = ["session.fxs", "page.html"]
    (folder / "page.html").write_text(read.page, encoding="utf-8", errors="backslashreplace")
    if (folder / TRACE).is_dir():
        names += [f"{TRACE}/{log.name}" for log in sorted((folder / TRACE).iterdir())]
    if minified is not None and minified.program:
        (folder / "minified.py").write_text(minified.program, encoding="utf-8")
        names.append("minified.py")
    programs = read.programs or {}
    for path, text in programs.items():
        name = f"program/{Path(path).name}"
        (folder / "program").mkdir(exist_ok=True)
        if not (folder / name).exists():
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
            names.append(name)
    with zipfile.ZipFile(folder / "attachments.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.write(folder / name, name)
    issue = DraftedIssue(
        target=read.target,
        program=next(iter(programs.values()), ""),
        ablation=ablation,
        versions=versions_of(arguments.python, arguments.form),
        attachments=["attachments.zip"],
        minified=minified,
    )
    text = issue_text(issue, arguments.form)
    (folder / "issue.md").write_text(text, encoding="utf-8")


OF_TORCH = ("torch.utils.collect_env",)

VERSIONS: dict[Form, tuple[str, ...]] = {
    "pytorch": OF_TORCH,
    "vllm": ("vllm.collect_env",),
    "transformers": ("transformers.cli.transformers", "env"),
}
"""Project → its module that tells of the machine, with arguments."""


OF_TRANSFORMERS = (
    "\nCopy-and-paste the text below in your GitHub issue and FILL OUT the two last points.\n"
)
"""Text that transformers' command prints for its user."""

_NOT_INSTALLED = re.compile(r"No module named '(?P<module>\w+)'")


def versions_of(python: str, form: Form) -> str:
    """Return what the project's own command says of the machine. Where that does not run, return
    why not, and what PyTorch's says.
    """
    versions, why = _run_versions(python, VERSIONS[form])
    if why and form != "pytorch":
        versions, torchs_why = _run_versions(python, OF_TORCH)
        why = f"{why} The rest is from python -m {OF_TORCH[0]}." if versions else why
        return "\n".join(filter(None, [why, torchs_why, versions]))
    return why or versions


def _run_versions(python: str, command: tuple[str, ...]) -> tuple[str, str]:
    """Return what a command prints, and why it prints nothing."""
    executable = shutil.which(python) or python
    words = f"python -m {' '.join(command)}"
    # Without it, transformers looks for a newer release over the network.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "NO_COLOR": "1"}
    try:
        ran = subprocess.run(
            [executable, "-m", *command],
            capture_output=True,
            text=True,
            timeout=COLLECT_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{words} did not run: {error}"
    missing = _NOT_INSTALLED.search(ran.stderr)
    if ran.returncode and missing:
        return (
            "",
            f"{missing['module']} is not installed for {executable}, so {words} does not run.",
        )
    if ran.returncode:
        return "", f"{words} failed: {ran.stderr.strip()[-500:]}"
    return ran.stdout.removeprefix(OF_TRANSFORMERS).strip(), ""


def _verdict(ablation: Ablation) -> str:
    if ablation.is_open:
        return NOT_RUN
    if not ablation.is_reproduced:
        return f"it does the same with and without torch.compile. {compared(ablation)}"
    if ablation.component:
        return f"the first backend with the fault adds {ablation.component}"
    if ablation.not_tried:
        return (
            f"{counted(ablation.not_tried, 'run')} left out, because --budget is used up: the "
            "component is not known"
        )
    return "it fails or differs unchanged, but with no single backend"
