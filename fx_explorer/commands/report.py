"""``fx-explorer report X``: what happened, as a document on stdout or in a file. X is a target or a session."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from fx_explorer.commands.capture_options import add_capture_arguments
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader

SQLITE_HEADER = b"SQLite format 3\0"

_LOG_LINE = re.compile(rb"^[VIWE]\d{4} \d\d:\d\d:\d\d")
"""How torch's structured trace begins a record (torch/_logging/_internal.py, TorchLogsFormatter)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="X", help="a session (file.fxs), or a target, which is captured first: file.py, file.py:object …"
    )
    parser.add_argument("--format", choices=["json"], default="json", help="json: the documented schema (default)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write there instead of to stdout")
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if is_session(arguments.target):
        with SessionReader(arguments.target) as reader:
            write_report(reader, arguments.output)
        return 0
    import asyncio

    from fx_explorer.commands.capture_first import capture_first

    return asyncio.run(capture_first(arguments, lambda reader: write_report(reader, arguments.output)))


def is_session(target: str) -> bool:
    """Whether X is a saved session and not a target. Raises UsageError for a log, which cannot be read yet."""
    path = Path(target)
    if path.suffix == ".fxs":
        return True
    if path.is_dir():
        raise UsageError(f"{target} is a directory; reading TORCH_TRACE logs is not supported yet. Give a target or a session.")
    if path.suffix == ".py" or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(32)
    if _LOG_LINE.match(start) or path.suffix == ".log":
        raise UsageError(f"{target} is a log; reading TORCH_TRACE logs is not supported yet. Give a target or a session.")
    return start.startswith(SQLITE_HEADER)


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
