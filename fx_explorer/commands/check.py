"""``fx-explorer check X``: for CI. Whether X, a target or a session, meets the conditions; a line
for each that it does not. A check is also written in the formats of CI systems: JUnit XML, one test
case per condition, and workflow commands of GitHub Actions, annotations at the lines of a pull
request.

JUnit XML has no standard; this keeps to what Jenkins, GitLab and pytest's ``--junitxml`` (family
``xunit1``) have in common. Format and escapes of the annotations: docs.github.com, "Workflow
commands for GitHub Actions"; actions/toolkit, ``packages/core/src/command.ts``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from fx_explorer import model
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.command_line.outputs import add_force_argument, session_output, text_output
from fx_explorer.command_line.standard_streams import drop_output, why_output_is_lost
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.model import Outcome
from fx_explorer.output.terminal import print_fitted
from fx_explorer.output_file import OutputFile
from fx_explorer.overview.checks import (
    CONDITIONS,
    Check,
    CheckFinding,
    checks,
    relative_to,
    unmet_requirements,
)
from fx_explorer.session import SessionReader

SUITE = "fx-explorer check"


EPILOG = """\
examples:
  fx-explorer check model.py --max-graph-breaks 0        exit code 1 when there is one
  fx-explorer check train.fxs --max-recompiles 2 --junit check.xml
  fx-explorer check model.py --expect-graphs 1 --github  annotations for GitHub Actions

Each condition that is not met is one line on stdout, with file and line; everything else goes to
stderr. What child processes compile counts, too. A check also fails when nothing was compiled, when
the program left early, when compiling raised an error, and when a child process could not be seen.
Each of these can be allowed.

exit codes: 0 all are met · 1 one is not · 3 the program raised · 4 the worker died or timed out, or
the session is not complete · 2 and 5 as for every command. With 3 and 4 the conditions are still
judged, on what was captured.
"""


ALLOWED = {
    "nothing": "that nothing was compiled at all",
    "early-exit": "that the program left before its end, with exit status 0",
    "unseen-children": "that a child process imported torch unrecorded, or outlived the program",
    "compile-errors": "that compiling raised an error, which the program caught or torch passed "
    "over",
    "gaps": "that something torch did could not be recorded",
}
"""Name → help. Without the option, each is a condition that fails (overview/checks.py)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the conditions that can be checked, the exceptions that can be allowed, and the output
    files.
    """
    parser.epilog = EPILOG
    add_target_argument(parser)
    asked = parser.add_argument_group("conditions (one at least)")
    asked.add_argument(
        "--max-graph-breaks", metavar="N", type=_count, help="graph breaks, each time one was hit"
    )
    asked.add_argument(
        "--max-break-sites", metavar="N", type=_count, help="places in the code with a graph break"
    )
    asked.add_argument("--max-recompiles", metavar="N", type=_count, help="recompiles, each time")
    asked.add_argument(
        "--max-guards", metavar="N", type=_count, help="guards of any one compilation"
    )
    asked.add_argument(
        "--no-skipped-frames",
        action="store_const",
        const=0,
        help="every function that Dynamo looked at is compiled, none runs in eager mode",
    )
    asked.add_argument(
        "--expect-graphs", metavar="N", type=_count, help="exactly this number of graphs"
    )
    asked.add_argument(
        "--max-findings", metavar="N", type=_count, help="problems that fx-explorer diagnose names"
    )
    allowed = parser.add_argument_group("what every check requires, and may be configured to allow")
    for name, what in ALLOWED.items():
        allowed.add_argument(
            f"--allow-{name}",
            action="append_const",
            const=name,
            dest="allowed",
            default=[],
            help=what,
        )
    written = parser.add_argument_group("what to write")
    written.add_argument(
        "--github", action="store_true", help="print annotations for GitHub Actions too"
    )
    written.add_argument(
        "--junit",
        metavar="FILE",
        type=Path,
        help="write a JUnit XML file: one test case a condition",
    )
    written.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="keep the session of a target in this file",
    )
    add_force_argument(written)
    add_capture_arguments(parser)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    wanted = wanted_conditions(arguments)
    junit = text_output(arguments.junit, "JUnit file", SUITE.encode(), arguments, "--junit FILE")
    is_met, recorded = True, 0

    def answer(reader: SessionReader) -> None:
        nonlocal is_met, recorded
        allowed = set(arguments.allowed)
        if wanted.get("expect-graphs") == 0:
            allowed.add("nothing")
        judged = [*unmet_requirements(reader, allowed), *checks(reader, wanted)]
        is_met, recorded = all(check.is_met for check in judged), _exit_code(reader)
        try:
            _print_result(reader, judged, arguments.github, junit)
        except OSError:
            if not (reason := why_output_is_lost()):
                raise
            drop_output()  # the exit code is the verdict, whoever can read the rest
            print_fitted(f"fx-explorer: standard output cannot be written: {reason}", sys.stderr)

    ended = answer_from(arguments, answer, session_output(arguments))
    # How the capture ended wins over a condition that is not met: its numbers are of a part.
    exit_code = recorded if ended is None else ended
    return exit_code or int(not is_met)


def wanted_conditions(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the requested conditions, name → limit. Raises UsageError if there are none."""
    values = {name: getattr(arguments, name.replace("-", "_")) for name in CONDITIONS}
    wanted = {name: value for name, value in values.items() if value is not None}
    if not wanted:
        options = ", ".join(map(_option, CONDITIONS))
        raise UsageError(f"check needs a condition, one of: {options}")
    return wanted


def _option(condition: str) -> str:
    if condition.startswith("no-"):
        return f"--{condition}"
    return f"--{condition} N"


def _exit_code(reader: SessionReader) -> int:
    """Return the exit code of a saved session's capture. A session without an ending was killed, or
    is still running: its numbers are partial.
    """
    outcome = reader.meta("outcome")
    if outcome is None:
        return 4
    return exit_code(model.Outcome.from_json(outcome), as_script=False)


def _print_result(
    reader: SessionReader, judged: Sequence[Check], for_github: bool, junit: OutputFile | None
) -> None:
    if junit:
        _write_junit(reader, judged, junit)
    # All before the first is told: of a damaged session nothing is told but that.
    for check in [relative_to(check, Path.cwd()) for check in judged]:
        if check.is_met:
            print_fitted(f"met: {printable(check.measured)} ({check.option})", sys.stderr)
        else:
            print_fitted(printable(check.description))
    if reader.meta("outcome") is None:
        print_fitted(
            "note: the capture of this session has not ended; the figures are those so far",
            sys.stderr,
        )
    if for_github:
        _print_annotations(judged)


def _print_annotations(judged: Sequence[Check]) -> None:
    """Print the annotations. GitHub knows files by their path in the repository, wherever the step
    runs.
    """

    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for check in judged:
        for line in annotation_lines(relative_to(check, root)):
            print(line)


def _write_junit(reader: SessionReader, judged: Sequence[Check], file: OutputFile) -> None:

    name = (reader.meta("target") or {}).get("name") or reader.path.name
    outcome = reader.meta("outcome")
    ended = model.Outcome.from_json(outcome) if outcome else None
    text = junit_xml(
        [relative_to(check, Path.cwd()) for check in judged],
        name,
        ended,
        float(reader.meta("finished") or 0),
    )
    file.write_text(text, errors="backslashreplace")


def junit_xml(
    checks: Sequence[Check], target: str, outcome: Outcome | None, duration_s: float
) -> str:
    """Return the document. A run that did not end well is a further test case, with an error: its
    numbers are partial.
    """
    problem = _problem(outcome)
    counts = {
        "tests": len(checks) + bool(problem),
        "failures": sum(not check.is_met for check in checks),
        "errors": int(bool(problem)),
        "skipped": 0,
        "time": f"{duration_s:.3f}",
    }
    attributes = {name: str(value) for name, value in counts.items()}
    root = ElementTree.Element("testsuites", {"name": SUITE, **attributes})
    suite = ElementTree.SubElement(root, "testsuite", {"name": xml_safe(target), **attributes})
    for check in checks:
        _add_case(suite, check, target)
    if problem:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": xml_safe(target), "name": "run", "time": "0.000"}
        )
        kind = outcome.kind if outcome else "incomplete"
        ElementTree.SubElement(
            case, "error", {"message": xml_safe(problem), "type": kind}
        ).text = xml_safe(problem)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        (DECLARATION, "\n")
    )


DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _add_case(suite: ElementTree.Element, check: Check, target: str) -> None:
    if check.findings:
        place = {"file": xml_safe(check.findings[0].file), "line": str(check.findings[0].line)}
    else:
        place = {}
    attributes = {"classname": xml_safe(target), "name": check.option, "time": "0.000", **place}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if not check.is_met:
        lines = [
            ": ".join(filter(None, (finding.where, finding.text))) for finding in check.findings
        ]
        failure = ElementTree.SubElement(
            case, "failure", {"message": xml_safe(check.description), "type": check.condition}
        )
        failure.text = xml_safe("\n".join([f"{check.measured} ({check.option})", *lines]))


def _problem(outcome: Outcome | None) -> str:
    if outcome is None:
        return "the capture has not ended: the session is a part of it"
    # A script that ends with ``sys.exit(0)`` has ended well.
    if outcome.kind == "finished" or (outcome.kind == "exited" and outcome.exit_code == 0):
        return ""
    return f"{outcome.kind.replace('_', ' ')}: {outcome.message}".removesuffix(": ")


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches characters that XML 1.0 cannot contain in any form (W3C, production [2] Char)."""


def xml_safe(text: str) -> str:
    """Return a text with control characters and lone surrogates as their Python escapes:
    ``\\x1b``.
    """
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def annotation_lines(check: Check) -> Iterator[str]:
    """Yield one line for each place of a failed check. GitHub shows the first ten of a step."""
    for finding in check.findings:
        message = f"{check.measured} ({check.option})"
        if finding.text:
            message += f": {finding.text}"
        properties = {**_place(finding), "title": f"torch.compile: {check.condition}"}
        yield workflow_command("error", message, properties)


def _place(finding: CheckFinding) -> dict[str, str]:
    place = {"file": finding.file, "line": str(finding.line or "")}
    # An empty ``line=`` would not be read as none.
    return {name: value for name, value in place.items() if value}


def workflow_command(name: str, message: str, properties: dict[str, str]) -> str:
    """Return ``::error file=model.py,line=3,title=…::message``, whatever the values hold."""
    text = ",".join(f"{key}={_escaped_property(value)}" for key, value in properties.items())
    space = " " if text else ""
    return f"::{name}{space}{text}::{_escaped(printable(message))}"


def _escaped(text: str) -> str:
    # The percent sign first: the others are written with one.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(printable(text)).replace(":", "%3A").replace(",", "%2C")
