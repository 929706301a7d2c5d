"""This module is ``fx-explorer profile X TRACE``: it shows where the time of a profile of
torch.profiler went, beside the session of its program, as text, markdown, CSV and JSON: the verdict
first, then lines, modules, kernels, operations, other work, and when the GPU was idle. Text,
markdown and the screen show the same rows.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share
from fx_explorer.command_line.given_session import is_session, shown_name
from fx_explorer.command_line.outputs import add_format_argument
from fx_explorer.command_line.profile_files import FOR_SESSIONS, session_with_profile
from fx_explorer.errors import UsageError
from fx_explorer.instruments.modules.tree import ModuleRow
from fx_explorer.instruments.profile.figures import (
    KernelShare,
    LineShare,
    NodeShare,
    ProfileFigures,
    module_name,
)
from fx_explorer.instruments.profile.verdict import between, describe_doing, verdict
from fx_explorer.output.formats import (
    Block,
    csv_text,
    in_markdown,
    json_text,
    markdown_list,
    markdown_table,
    text_of,
)
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import width_for
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

EPILOG = """\
The profile's times are assigned to the kernel calls of the session by the launch of each kernel,
the compiled graph around it, and its position among the calls of the generated code; names confirm
it. ~ marks a time that is divided equally among several calls of one name, because their order does
not identify them. ≈ marks code whose name has another number. Work outside of compiled graphs
(optimizer, code that was not compiled, Python at graph breaks) is listed separately. All parts
add up to the GPU's time in the profile.

The profile is kept in the session, and the app shows its times as well: fx-explorer SESSION
--profile TRACE.

examples:
  fx-explorer run train.py                        record it; a torch.profiler in it may write \
trace.json.gz meanwhile
  fx-explorer profile train.fxs trace.json.gz     where the time went: your lines, modules, \
kernels; idle times of the GPU
  fx-explorer profile trace.log trace.json.gz     the same with a TORCH_TRACE log of the program
  fx-explorer profile trace.json.gz               the profile alone: by kernel, how much is \
compiled, idle times
  fx-explorer profile train.fxs --all             the profile that the session has, every row
  fx-explorer profile train.fxs t.json --format json

exit codes: 0 fine · 1 nothing could be assigned · 2 bad usage · 5 a file cannot be read, or is
not a profile
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="X",
        help="a session (file.fxs) or a TORCH_TRACE log of the program, or only a profile",
    )
    parser.add_argument(
        "trace",
        metavar="TRACE",
        type=Path,
        nargs="?",
        default=None,
        help="file that torch.profiler wrote with export_chrome_trace (.json, .json.gz); default: "
        "the profile in X",
    )
    add_format_argument(parser)
    parser.add_argument(
        "--all",
        dest="every",
        action="store_true",
        help="every row, not only the most expensive",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the profile. Returns 1 where no part of it could be joined. Raises UsageError if X is
    not a session, or if neither a trace is given nor X has a profile.
    """
    from fx_explorer.instruments.profile.figures import profile_figures

    if not is_session(arguments.target):
        raise UsageError(FOR_SESSIONS.format(target=arguments.target))
    with contextlib.ExitStack() as until:
        session = Path(arguments.target)
        if arguments.trace:
            session = session_with_profile(arguments.target, arguments.trace, until)
        with SessionReader(session) as reader:
            figures = profile_figures(reader)
            if figures is None:
                shown = shown_name(arguments)
                raise UsageError(
                    f"{shown} has no profile. Give a profile: fx-explorer profile {shown} TRACE"
                )
            if arguments.format == "text":
                sys.stdout.write(profile_text(figures, arguments.every, width_for(sys.stdout)))
            else:
                sys.stdout.write(FORMATS[arguments.format](figures, arguments.every))
    return int(not figures.kernels and not figures.is_alone)


Cells = tuple[str, ...]

LINE = Column("line", narrowing="cut", least=18)
MODULE = Column("module", narrowing="cut", least=14)
FRAME = Column("frame", priority=3)
DIRECTION = Column("direction", priority=2)
TIME = Column("time", is_number=True)
SHARE = Column("share", is_number=True)
RUNS = Column("runs", is_number=True, priority=4)


class ProfileTable(NamedTuple):
    """Rows of one kind, the most expensive first."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Cells]


def tables(figures: ProfileFigures) -> list[ProfileTable]:
    """Return the tables that have any rows."""
    found = [
        _lines(figures),
        _modules(figures),
        _kernels(figures),
        _nodes(figures),
        _others(figures),
        _gaps(figures),
    ]
    return [table for table in found if table.rows]


def _lines(figures: ProfileFigures) -> ProfileTable:
    rows = [_line_cells(figures, line) for line in figures.lines]
    directions = (Column("forward", is_number=True), Column("backward", is_number=True))
    return ProfileTable("your lines", (LINE, TIME, SHARE, *directions), rows)


def _line_cells(figures: ProfileFigures, line: LineShare) -> Cells:
    return (
        in_file(*line.line),
        run_time(line.seconds),
        _share(figures, line.seconds),
        _time(line.forward_s),
        _time(line.backward_s),
    )


def _modules(figures: ProfileFigures) -> ProfileTable:
    rows = [_module_cells(figures, row) for row in _folded(figures.modules)]
    times = (Column("itself", is_number=True), Column("with all in it", is_number=True))
    return ProfileTable("modules", (MODULE, *times, SHARE), rows)


def _module_cells(figures: ProfileFigures, row: ModuleRow) -> Cells:
    name = row.title if row.depth else module_name(row)
    own_s = 0.0 if row.is_fold else row.own.time_s
    return (
        "  " * row.depth + name,
        _time(own_s),
        run_time(row.figures.time_s),
        _share(figures, row.figures.time_s),
    )


def _folded(rows: Sequence[ModuleRow]) -> list[ModuleRow]:
    """Return the rows with alike layers folded into one row."""
    shown: list[ModuleRow] = []
    hidden_below: int | None = None
    for row in rows:
        if hidden_below is not None and row.depth > hidden_below:
            continue
        hidden_below = row.depth if row.is_fold else None
        shown.append(row)
    return shown


def _kernels(figures: ProfileFigures) -> ProfileTable:
    rows = [_kernel_cells(figures, share) for share in figures.kernels]
    kernel = Column("kernel", narrowing="cut", least=24)
    line = Column("your line", narrowing="cut", least=18)
    columns = (kernel, FRAME, DIRECTION, TIME, SHARE, RUNS, line, MODULE)
    return ProfileTable("kernels", columns, rows)


def _kernel_cells(figures: ProfileFigures, share: KernelShare) -> Cells:
    cost, time = share.cost, share.time
    frame = f"[{cost.version.name}]" if cost.version else ""
    return (
        cost.use.kernel.name,
        frame,
        cost.use.kernel.direction,
        mark(time.shared_s > 0, time.is_similar) + run_time(time.seconds),
        _share(figures, time.seconds),
        f"{time.runs:,}",
        cost.line_label,
        cost.module_label,
    )


def _nodes(figures: ProfileFigures) -> ProfileTable:
    rows = [_node_cells(figures, share) for share in figures.nodes]
    operation = Column("operation", narrowing="cut", least=24)
    part = Column("part of its kernel", priority=1)
    return ProfileTable("operations", (operation, DIRECTION, TIME, SHARE, part), rows)


def _node_cells(figures: ProfileFigures, share: NodeShare) -> Cells:
    direction = "backward" if share.node.is_backward else ""
    part = f"1 of {share.among}" if share.among > 1 else ""
    seconds = share.seconds
    return share.node.name, direction, run_time(seconds), _share(figures, seconds), part


def _others(figures: ProfileFigures) -> ProfileTable:
    rows = [_other_cells(figures, other) for other in figures.others]
    what = Column("what", narrowing="wrapped", least=18)
    operator = Column("operator", narrowing="cut", least=16)
    columns = (what, operator, FRAME, TIME, SHARE, RUNS, LINE)
    title = "by kernel and operator" if figures.is_alone else "assigned to no kernel"
    return ProfileTable(title, columns, rows)


def _other_cells(figures: ProfileFigures, other: model.ProfileOther) -> Cells:
    frame = f"[{other.compilation}]" if other.compilation else ""
    line = in_file(other.file, other.line) if other.line else ""
    return (
        figures.words_of(other.kind),
        other.name,
        frame,
        run_time(other.seconds),
        _share(figures, other.seconds),
        f"{other.runs:,}",
        line,
    )


def _gaps(figures: ProfileFigures) -> ProfileTable:
    rows = [
        (run_time(gap.seconds), f"at {run_time(gap.start_s)}", between(gap), describe_doing(gap))
        for gap in figures.gaps
    ]
    columns = (
        Column("for", is_number=True),
        Column("when"),
        Column("where", narrowing="wrapped", least=22),
        Column("meanwhile the program", narrowing="wrapped", least=24),
    )
    return ProfileTable("the GPU is idle", columns, rows)


def mark(is_shared: bool, is_similar: bool) -> str:
    """Return the sign before a time that may not be exactly this kernel's."""
    if is_shared:
        return "~ "
    if is_similar:
        return "≈ "
    return ""


def _time(seconds: float) -> str:
    return run_time(seconds) if seconds > 0 else ""


def _share(figures: ProfileFigures, seconds: float) -> str:
    return careful_share(seconds, figures.profile.work_s)


SCHEMA = "fx-explorer/profile/1"

MOST_ROWS = 10
"""Maximum number of rows of each table, unless all are requested."""

INDENT = 2

Format = Callable[[ProfileFigures, bool], str]


def profile_text(figures: ProfileFigures, every: bool, width: int | None = None) -> str:
    """Return the verdict and the tables in columns, with ``every`` row or only the most expensive.
    Lines have at most ``width`` cells; None sets no limit.
    """
    blocks: list[Block] = [*verdict(figures)]
    for table in tables(figures):
        blocks += ["", f"{table.title}:", _shown(table, every)]
    return text_of(blocks, width)


def profile_markdown(figures: ProfileFigures, every: bool) -> str:
    """Return the verdict as a list and the tables, to be put into an issue."""
    lines = markdown_list(verdict(figures))
    for table in tables(figures):
        lines += ["", f"**{in_markdown(table.title)}**", "", *markdown_table(_shown(table, every))]
    return "\n".join(lines) + "\n"


def profile_csv(figures: ProfileFigures, every: bool) -> str:
    """Return a line for each kernel, with times in seconds; all of them in any case."""
    names = [
        "kernel",
        "frame",
        "direction",
        "seconds",
        "shared_seconds",
        "similar",
        "runs",
        "file",
        "line",
        "module",
    ]
    rows = []
    for share in figures.kernels:
        cells = _kernel(share)
        module = cells.pop("module")
        line = cells.pop("line")
        rows.append([*cells.values(), *(line or ("", "")), module])
    return csv_text(names, rows)


def profile_json(figures: ProfileFigures, every: bool) -> str:
    """Return everything as JSON."""
    whole = {
        "schema": SCHEMA,
        "verdict": verdict(figures),
        "profile": {name: value for name, value in asdict(figures.profile).items() if name != "id"},
        "profiles": figures.profiles,
        "at_operation_s": figures.at_node_s,
        "at_line_s": figures.at_line_s,
        "lines": [_line_json(line) for line in figures.lines],
        "modules": [_module_json(row) for row in figures.modules],
        "kernels": [_kernel_json(kernel) for kernel in figures.kernels],
        "operations": [_node_json(node) for node in figures.nodes],
        "elsewhere": [_without_ids(asdict(other)) for other in figures.others],
        "idle_s": figures.idle_s,
        "gaps": [_without_ids(asdict(gap)) for gap in figures.gaps],
    }
    return json_text(whole)


def _line_json(share: LineShare) -> dict[str, object]:
    file, line = share.line
    return {
        "file": file,
        "line": line,
        "forward_s": share.forward_s,
        "backward_s": share.backward_s,
    }


def _module_json(row: ModuleRow) -> dict[str, object]:
    return {
        "module": module_name(row),
        "layers": row.count,
        "depth": row.depth,
        "own_s": row.own.time_s,
        "s": row.figures.time_s,
    }


def _kernel_json(share: KernelShare) -> dict[str, object]:
    place = None
    if share.cost.lines:
        file, line = share.cost.lines[0]
        place = {"file": file, "line": line}
    return {**_kernel(share), "line": place}


def _node_json(share: NodeShare) -> dict[str, object]:
    return {
        "node": share.node.name,
        "graph": share.node.graph,
        "seconds": share.seconds,
        "among": share.among,
    }


FORMATS: dict[str, Format] = {
    "text": profile_text,
    "json": profile_json,
    "csv": profile_csv,
    "markdown": profile_markdown,
}


def _kernel(kernel_share: KernelShare) -> dict[str, Any]:
    cost, time = kernel_share.cost, kernel_share.time
    kernel = cost.use.kernel
    frame = cost.version.name if cost.version else None
    line = cost.lines[0] if cost.lines else None
    module = cost.modules[0] if cost.modules else None
    return {
        "kernel": kernel.name,
        "frame": frame,
        "direction": kernel.direction,
        "seconds": time.seconds,
        "shared_seconds": time.shared_s,
        "is_similar": time.is_similar,
        "runs": time.runs,
        "line": line,
        "module": module,
    }


def _without_ids(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in ("id", "profile", "position")}


def _shown(table: ProfileTable, every: bool) -> Table:
    """Return the rows to show: ``every`` one, or the most expensive."""
    rows = table.rows if every else table.rows[:MOST_ROWS]
    more = len(table.rows) - len(rows)
    note = f"and {more:,} more (--all shows them)" if more else ""
    return Table(table.columns, rows, INDENT, note)
