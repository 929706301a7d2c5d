"""This module is ``fx-explorer ask X QUESTION``: one question about a session, answered as JSON of
a bounded length, for programs and agents.
"""

from __future__ import annotations

import argparse
import json
import sys

from fx_explorer.answers.answer import (
    ALL_FIELDS,
    LEAST_CHARACTERS,
    MOST_CHARACTERS,
    ROWS,
    RowSelection,
    answer_text,
)
from fx_explorer.answers.questions import QUESTIONS, ask, find_question
from fx_explorer.argument_types import count
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_files import open_session
from fx_explorer.command_line.given_session import (
    add_target_argument,
    answer_from,
    shown_name,
)
from fx_explorer.session import SessionReader

EXAMPLES = """\
examples:
  fx-explorer ask model.fxs                          what happened, the worst first
  fx-explorer ask model.fxs findings                 what is wrong, and what to do
  fx-explorer ask model.fxs line model.py:12         what torch made of a line
  fx-explorer ask model.fxs kernel triton_poi_fused_gelu_0   its code, lines and figures
  fx-explorer ask model.fxs guards --match "size x" --limit 5   rows with these words
  fx-explorer ask model.fxs kernels --fields kernel,lines,bytes   these fields alone
  fx-explorer ask before.fxs diff after.fxs          what changed

questions:
"""

NOTES = """\

An answer is a JSON object: answer (a sentence), rows, count (of all rows), known_from (what
recorded them), left_out (what is missing, and how to get it), next (further questions). Fields
without a value are left out. docs/reference/answer-schema.json describes it.
"""


def _epilog() -> str:
    width = max(len(question.usage) for question in QUESTIONS)
    lines = [f"  {question.usage:<{width}}  {question.does}" for question in QUESTIONS]
    return EXAMPLES + "\n".join(lines) + "\n" + NOTES


EPILOG = _epilog()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    parser.add_argument(
        "question", metavar="QUESTION", nargs="?", default="overview", help="default: overview"
    )
    parser.add_argument(
        "about", metavar="ABOUT", nargs="*", help="subject of the question, such as a line"
    )
    add_selection_arguments(parser)
    add_capture_arguments(parser)


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose rows and fields."""
    parser.add_argument(
        "--limit", metavar="N", type=count, default=ROWS, help=f"maximum number of rows ({ROWS})"
    )
    parser.add_argument(
        "--skip", metavar="N", type=_number, default=0, help="leave out the first rows"
    )
    parser.add_argument(
        "--match", metavar="TEXT", default="", help="only rows with all of these words"
    )
    parser.add_argument(
        "--fields",
        metavar="A,B",
        default="",
        help=f"only these fields of each row; {ALL_FIELDS} for every field",
    )
    parser.add_argument(
        "--characters",
        metavar="N",
        type=_characters,
        default=MOST_CHARACTERS,
        help=f"maximum length of the answer (default: {MOST_CHARACTERS:,})",
    )


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


def _characters(text: str) -> int:
    number = int(text)
    if number < LEAST_CHARACTERS:
        raise argparse.ArgumentTypeError(f"an answer needs at least {LEAST_CHARACTERS:,}")
    return number


def selection_of(arguments: argparse.Namespace) -> RowSelection:
    """Return the rows and fields that the options choose."""
    fields = [name.strip() for name in arguments.fields.split(",") if name.strip()]
    return RowSelection(
        limit=arguments.limit,
        skip=arguments.skip,
        match=arguments.match,
        fields=fields,
        characters=arguments.characters,
    )


def run(arguments: argparse.Namespace) -> int:
    question = find_question(arguments.question)  # before a target is captured
    about = " ".join(arguments.about)
    if question.name == "patterns":
        arguments.record_patterns = True
    selection = selection_of(arguments)

    def answer(reader: SessionReader) -> None:
        from fx_explorer.answers.references import describe_session  # not needed for --help

        given = ask(reader, question.name, about, open_session)
        words = " ".join(filter(None, (question.name, about)))
        of_session = describe_session(reader, shown_name(arguments))
        _print(answer_text(words, given, of_session, selection))

    return answer_from(arguments, answer) or 0


def _print(text: str) -> None:
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    if encoding != "utf8":
        text = json.dumps(json.loads(text)) + "\n"
    sys.stdout.write(text)
