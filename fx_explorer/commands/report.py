"""This module is ``fx-explorer report X``: it writes a document about a target or a session to
stdout or to a file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.argument_types import count
from fx_explorer.client.session_files import SESSION, copy_session, session_content, session_file
from fx_explorer.command_line.build_first import add_kernels_argument, with_kernel_builds
from fx_explorer.command_line.capture_options import (
    add_allow_argument,
    add_capture_arguments,
    request_from,
)
from fx_explorer.command_line.given_session import (
    add_target_argument,
    answer_from,
    is_session,
    shown_name,
)
from fx_explorer.command_line.outputs import add_force_argument, text_output
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.output.formats import json_text
from fx_explorer.output.terminal import terminal_width, width_for
from fx_explorer.output_file import OutputFile
from fx_explorer.session import SessionReader
from fx_explorer.session.in_page import SIGN as PAGE_SIGN
from fx_explorer.session.writer import finish_session

if TYPE_CHECKING:
    from fx_explorer.trials import BreakTimes

Answer = Callable[[SessionReader], None]
Writer = Callable[[SessionReader, OutputFile | None], None]


def add_measure_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measure-breaks",
        action="store_true",
        help="also build the target and call it repeatedly, to measure the time of each graph "
        "break (no sessions, no scripts)",
    )


def with_break_times(arguments: argparse.Namespace, answer: Answer) -> Answer:
    """Return ``answer`` for a session that also has the times. If they cannot be measured, the user
    is told, and the rest is answered.
    """
    if not arguments.measure_breaks:
        return answer
    if is_session(arguments.target):
        raise UsageError("--measure-breaks works on targets: a given session is not changed")
    import asyncio  # neither is needed for other reports

    from fx_explorer.trials import add_break_times

    try:
        times = asyncio.run(_measured(arguments))
    except UsageError as error:
        _tell(f"breaks are not measured: {error}")
        return answer

    def with_times(reader: SessionReader) -> None:
        reader.close()  # a session becomes one plain file again only when nobody reads it
        try:
            add_break_times(reader.path, times)
            finish_session(reader.path)
        finally:
            reader.reopen()
        answer(reader)

    return with_times


async def _measured(arguments: argparse.Namespace) -> BreakTimes:
    from fx_explorer.trials import TrialWorker, measure_breaks

    _tell("measuring graph breaks: a worker builds the target and calls it repeatedly")
    return await measure_breaks(
        request_from(arguments), _tell, TrialWorker(arguments.python, arguments.timeout)
    )


def _tell(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


SIGN = b'"fx-explorer/report/'
"""Text in the first line of every report: a file with it is one of ours, and may be replaced."""

SIGNS = {
    "html": PAGE_SIGN,
    "chrome-trace": b'"fx-explorer/trace/',
    "collapsed": b"fx-explorer: ",
    "svg": b"<svg",
}
"""Format → its sign, where it has its own."""


EPILOG = """\
examples:
  fx-explorer report model.fxs                           everything, as JSON
  fx-explorer report model.py --format text              the overview and the kernels, to read
  fx-explorer report model.fxs --format markdown         the answer, then folded tables, to paste
  fx-explorer report model.fxs --section kernels --limit 5   one part, here its first five rows
  fx-explorer report model.fxs --format html -o model.html  one page for the browser, to send
  fx-explorer report model.fxs --format html --redact -o model.html  without source, values, names
  fx-explorer report model.fxs | jq '.graph_breaks'
  fx-explorer report model.fxs --format chrome-trace -o model.json   open it at ui.perfetto.dev
  fx-explorer report model.fxs --format collapsed | flamegraph.pl > compiling.svg
  fx-explorer report model.fxs --format svg --section ledger -o call.svg   the picture of a view
"""


MOST_ROWS = 100
"""Number of rows of a section if no other limit is given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    parser.add_argument(
        "--format",
        choices=[*WRITERS, *OF_SECTIONS],
        default="json",
        help="json: the documented schema (default); text: the overview, and kernels with their "
        "lines, modules, bytes, times; markdown: for an issue or a pull request; html: the "
        "session as one page for a browser; chrome-trace: compile phases, the steps of a "
        "call and memory for Perfetto; collapsed: compile time as stacks for flame graphs, "
        "or a call (--section ledger); svg: the picture of a section",
    )
    parser.add_argument(
        "--section",
        metavar="NAME",
        help="only one part: overview, findings, breaks, guards, kernels, fusion, decisions, "
        "modules, memory, step_memory, stages, trace, passes, graphs, sizes, side_effects, "
        "values, collectives, flame, ledger, bench, numerics, profile, roofline, regions, "
        "support, console (json, text, markdown); flame, ledger or step_memory "
        "(chrome-trace); flame or ledger (collapsed); those or roofline or bench (svg); or "
        "the name of a plug-in's view or section (json, text, markdown)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=MOST_ROWS,
        help=f"with --section: the maximum number of rows (default: {MOST_ROWS})",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write to this file instead of stdout"
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="leave out source code, values, printed lines, paths and your names; keep counts, "
        "links, shapes, kernels and times",
    )
    add_force_argument(parser)
    add_allow_argument(parser)
    add_measure_argument(parser)
    add_kernels_argument(parser)
    add_capture_arguments(parser)


def prepare(arguments: argparse.Namespace) -> None:
    """Import what writes the report."""
    for name in MODULES.get(arguments.format, ()):
        importlib.import_module(name)


MODULES = {
    "json": ("fx_explorer.report.json_report",),
    "text": ("fx_explorer.report.overview_text", "fx_explorer.instruments.kernels.report"),
    "markdown": ("fx_explorer.report.markdown",),
    "html": ("fx_explorer.report.page.page",),
}
"""Format → modules that write it."""


def run(arguments: argparse.Namespace) -> int:
    sign = SIGNS.get(arguments.format, SIGN)
    output = text_output(arguments.output, "report", sign, arguments, "-o FILE")
    if arguments.format in OF_SECTIONS:
        write = OF_SECTIONS[arguments.format](arguments.section or "")
    elif arguments.section:
        write = _section_writer(arguments)
    else:
        write = WRITERS[arguments.format]
    if arguments.redact:
        answer = with_kernel_builds(arguments, lambda reader: write_redacted(reader, write, output))
    else:
        answer = with_kernel_builds(arguments, lambda reader: write(reader, output))
    answer = with_break_times(arguments, answer)
    return answer_from(arguments, answer) or 0


def write_redacted(reader: SessionReader, write: Writer, output: OutputFile | None) -> None:
    """Write a report of a redacted copy of the session."""
    from fx_explorer.session.redacting import redact  # not needed for other reports

    with temporary_folder() as folder:
        copy = folder / SESSION
        copy_session(reader.path, session_file(copy))
        redact(copy)
        with SessionReader(copy) as redacted:
            write(redacted, output)


def _section_writer(arguments: argparse.Namespace) -> Writer:
    """Return what writes one section. Raises UsageError for an unknown one."""
    from fx_explorer.report import one_section  # not needed for whole reports
    from fx_explorer.report.sections import section_object, section_of

    name, limit = arguments.section, arguments.limit
    is_of_plugin = name not in one_section.NAMES
    if is_of_plugin:
        _check_plugin_section(name)
    if arguments.format == "html":
        raise UsageError("--section works with json, text and markdown: a page links to all parts")

    def write(reader: SessionReader, output: OutputFile | None) -> None:
        if arguments.format == "json" and is_of_plugin:
            text = json_text(section_object(section_of(reader, name), limit))
        elif arguments.format == "json":
            text = _section_as_json(reader, shown_name(arguments), name, limit)
        elif arguments.format == "markdown":
            text = one_section.section_as_markdown(reader, name, limit)
        else:
            width = terminal_width() if output is None else None
            text = one_section.section_as_text(reader, name, limit, width)
        _write(text, output)

    return write


def _check_plugin_section(name: str) -> None:
    """Raise UsageError for a section that neither we nor a plug-in have."""
    from fx_explorer.report import one_section
    from fx_explorer.report.sections import section_names

    if name not in section_names():
        names = ", ".join(dict.fromkeys([*one_section.NAMES, *section_names()]))
        raise UsageError(f"there is no section {name!r}; there are: {names}")


def _section_as_json(reader: SessionReader, session: str, name: str, limit: int) -> str:
    """Return a section as ``fx-explorer ask`` answers it, with all fields and however long."""
    from fx_explorer.answers.answer import ALL_FIELDS, RowSelection, answer_text
    from fx_explorer.answers.questions import ask_whole
    from fx_explorer.answers.references import describe_session

    selection = RowSelection(limit=limit, fields=[ALL_FIELDS], characters=sys.maxsize)
    about = describe_session(reader, session)
    return answer_text(name, ask_whole(reader, name), about, selection)


def _write(text: str, output: OutputFile | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, errors="backslashreplace")


def write_report(reader: SessionReader, output: OutputFile | None) -> None:
    """Write JSON to ``output``, or to stdout."""
    from fx_explorer.report.json_report import json_report

    # A file is UTF-8; what stdout leads to may not be.
    text = (
        json.dumps(json_report(reader), indent=2, ensure_ascii=output is None, default=str) + "\n"
    )
    _write(text, output)


def write_text(reader: SessionReader, output: OutputFile | None) -> None:
    """Write the overview and the kernels to ``output``, or to stdout."""
    from fx_explorer.instruments.kernels.report import kernels_as_text
    from fx_explorer.report.asked_beside import asked_beside
    from fx_explorer.report.overview_text import overview_text

    columns = width_for(sys.stdout) if output is None else None
    # A pager and a paste are as narrow as a terminal; what is to be read by a program is JSON.
    table_columns = terminal_width() if output is None else None
    with asked_beside(reader, lambda own: kernels_as_text(own, table_columns)) as kernels:
        parts = overview_text(reader, columns), kernels()
    _write("\n".join(filter(None, parts)), output)


def write_page(reader: SessionReader, output: OutputFile | None) -> None:
    """Write a page for the browser to ``output``, or to stdout."""
    from fx_explorer.report.page.page import html_page  # not needed for other formats

    _tell("making the page: linking lines takes a while in a large session")
    _write(html_page(reader, session_content(reader.path)), output)


def write_markdown(reader: SessionReader, output: OutputFile | None) -> None:
    """Write markdown to ``output``, or to stdout."""
    from fx_explorer.report.markdown import markdown_report  # not needed for other formats

    _write(markdown_report(reader), output)


def _trace_writer(section: str) -> Writer:
    from fx_explorer.report import trace_events  # not needed for other formats

    _check_section(section, trace_events.SECTIONS, "chrome-trace")
    return lambda reader, output: _write(trace_events.trace_text(reader, section), output)


def _stacks_writer(section: str) -> Writer:
    from fx_explorer.report import collapsed_stacks

    section = section or "flame"
    _check_section(section, collapsed_stacks.SECTIONS, "collapsed")
    return lambda reader, output: _write(collapsed_stacks.collapsed_text(reader, section), output)


def _picture_writer(section: str) -> Writer:
    from fx_explorer.report import view_pictures

    if not section:
        raise UsageError(
            f"--format svg draws one section: --section {', '.join(view_pictures.SECTIONS)}"
        )
    _check_section(section, view_pictures.SECTIONS, "svg")
    return lambda reader, output: _write(view_pictures.picture_text(reader, section), output)


def _check_section(section: str, sections: Collection[str], format_: str) -> None:
    if section and section not in sections:
        raise UsageError(
            f"--format {format_} has no section {section!r}; it has: {', '.join(sections)}"
        )


OF_SECTIONS: dict[str, Callable[[str], Writer]] = {
    "chrome-trace": _trace_writer,
    "collapsed": _stacks_writer,
    "svg": _picture_writer,
}
"""Format → what returns the function that writes a section in it; an empty text for none."""

WRITERS: dict[str, Writer] = {
    "json": write_report,
    "text": write_text,
    "markdown": write_markdown,
    "html": write_page,
}
"""Format → the function that writes it."""
