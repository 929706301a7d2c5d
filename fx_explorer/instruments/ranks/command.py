"""``fx-explorer ranks DIR``: where the ranks of a job agree, and where they first diverge."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from fx_explorer.highlight import printable
from fx_explorer.output.formats import json_text, text_lines
from fx_explorer.output.terminal import terminal_width, width_for

EPILOG = """\
examples:
  fx-explorer ranks /tmp/trace                           the directory that TORCH_TRACE was set to \
in the job
  fx-explorer ranks rank_0.log.gz rank_7.log.gz          two of its logs
  fx-explorer ranks train.rank*.fxs                      sessions that torchrun … -m fx_explorer \
run train.py wrote
  fx-explorer ranks job.zip                              an archive of them, as people attach it
  fx-explorer ranks /tmp/trace --check                   exit code 1 when the ranks diverge
  fx-explorer ranks /tmp/trace --format html             a page for the browser, to stdout
  fx-explorer ranks /shared/trace --engine dask://host:8786    read by the workers of a Dask cluster

The rank of a file is read from its name (rank_3) and its records. fx-explorer compares which
functions were compiled and in which order, the operations of the graphs (not their names), sizes
and types, breaks, guards, why functions were recompiled, the answers of torch's caches,
collectives, and how each rank ended. A truncated log is compared up to its end.

exit codes: 0 compared · 1 with --check: they diverge, or this is unknown for a rank · 2 and 5 as
for every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "paths", metavar="DIR|FILE", nargs="+", help="directories, logs or sessions"
    )
    parser.add_argument(
        "--format",
        choices=["text", "markdown", "json", "html"],
        default="text",
        help="text (default), or another format of the same facts; html: a page for the browser",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit code 1 when the ranks diverge, and when one is missing, cannot be read, or has "
        "an unknown end",
    )
    add_engine_argument(parser)


def add_engine_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        metavar="ADDRESS",
        default="",
        help="let a Dask cluster read the logs; it must see the same files and have fx-explorer: "
        "dask://HOST:PORT",
    )


def run(arguments: argparse.Namespace) -> int:
    from fx_explorer.command_line.attached import unpacked
    from fx_explorer.command_line.given_logs import ReadingProgress
    from fx_explorer.command_line.pages import ranks_page
    from fx_explorer.instruments.ranks.compared import compare
    from fx_explorer.instruments.ranks.report import ranks_json, ranks_markdown, ranks_text
    from fx_explorer.instruments.ranks.sentences import gaps

    with contextlib.ExitStack() as until:
        paths = [unpacked(Path(path), until) for path in arguments.paths]
        progress = until.enter_context(ReadingProgress(sys.stderr))
        ranks = compare(paths, arguments.engine, progress.show_progress)
    if arguments.format == "json":
        sys.stdout.write(json_text(ranks_json(ranks)))
    elif arguments.format == "html":
        sys.stdout.write(ranks_page(ranks))
    elif arguments.format == "markdown":
        for line in ranks_markdown(ranks):
            print(printable(line))
    else:
        lines = ranks_text(ranks, terminal_width(100))
        print("\n".join(text_lines(lines, width_for(sys.stdout))))
    if not arguments.check:
        return 0
    return int(
        ranks.first is not None
        or bool(gaps(ranks))
        or any(other_file.is_unread for other_file in ranks.left_out)
    )
