"""``fx-explorer report X``: what happened, as a document on stdout or in a file. X is a target or a session."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fx_explorer.commands.build_first import add_kernels_argument, with_kernel_builds
from fx_explorer.commands.capture_options import add_capture_arguments
from fx_explorer.commands.given_session import add_target_argument, answer_from
from fx_explorer.commands.measure_first import add_measure_argument, with_break_times
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target_argument(parser)
    parser.add_argument("--format", choices=["json"], default="json", help="json: the documented schema (default)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write there instead of to stdout")
    add_measure_argument(parser)
    add_kernels_argument(parser)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    answer = with_kernel_builds(arguments, lambda reader: write_report(reader, arguments.output))
    answer = with_break_times(arguments, answer)
    return answer_from(arguments, answer) or 0


def write_report(reader: SessionReader, output: Path | None) -> None:
    """JSON to ``output``, or to stdout."""
    from fx_explorer.report.json_report import json_report

    text = json.dumps(json_report(reader), indent=2, ensure_ascii=output is None, default=str) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(
            f"cannot write the report to {output}: {error.strerror or error}. Choose another place with -o."
        ) from error
