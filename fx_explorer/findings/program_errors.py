"""Errors that the user's own program raised because of what torch.compile returned: a wrapper with
other names for the parameters, or a function in the place of a method. The compiler itself did not
fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.words import first_line
from fx_explorer.findings.compile_edits import COPY_BEFORE
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.tracebacks import parse_frames
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.session.file_names import in_file

LONGEST_MESSAGE = 300
"""Maximum number of characters of a message that are shown: torch lists every key."""


@dataclass(frozen=True, slots=True)
class WrapperError:
    """An error that a program has only because something of it was given to torch.compile."""

    pattern: re.Pattern[str]
    """Matches the error's message with its traceback."""
    explanation: str
    remedies: tuple[str, ...]


_IN_PLACE = (
    "Compile in place: model.compile() in place of model = torch.compile(model). The model keeps "
    "its class, and its state_dict keeps its keys. For torch.nn.Sequential and other classes of "
    "torch.nn, where this compiles nothing: model.forward = torch.compile(model.forward). "
    f"{COPY_BEFORE}"
)

WRAPPER_ERRORS: tuple[WrapperError, ...] = (
    WrapperError(
        re.compile(
            r'loading state_dict.{1,2000}Missing key\(s\)[^\n]*"(?:\w+\.)*_orig_mod\.', re.S
        ),
        "torch.compile(model) returns a wrapper that holds the model as _orig_mod, so its keys "
        "begin with _orig_mod. The file that is loaded has the keys of the model itself.",
        (
            _IN_PLACE,
            "Load before torch.compile is called, or into the model: model._orig_mod"
            ".load_state_dict(…).",
        ),
    ),
    WrapperError(
        re.compile(
            r'loading state_dict.{1,9000}Unexpected key\(s\)[^\n]*"(?:\w+\.)*_orig_mod\.', re.S
        ),
        "torch.compile(model) returns a wrapper that holds the model as _orig_mod, so the keys of "
        "its state_dict() begin with _orig_mod. They were saved like that.",
        (
            "Save the model's own state: model._orig_mod.state_dict().",
            _IN_PLACE,
            "For existing files: call "
            'torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "_orig_mod.") '
            "before you load them.",
        ),
    ),
    WrapperError(
        re.compile(r"lr_scheduler\.py.{1,4000}has no attribute '__func__'", re.S),
        "A scheduler replaces the optimizer's step, which must be its method. The optimizer's "
        "step is a function here, because torch.compile(optimizer.step) returned one.",
        (
            "Create the scheduler first, then compile optimizer.step.",
            "Compile your own function that calls optimizer.step(), and call it in the loop: "
            "optimizer.step then stays a method.",
        ),
    ),
    WrapperError(
        re.compile(
            r"PicklingError: Can't pickle <function [^\n]{1,300}it's not the same object as"
        ),
        "The result of torch.compile for a function or a method cannot be pickled: pickle finds "
        "the original by its name, which is another object.",
        (
            "Compile a module in place, module.compile(): it is pickled without its compiled code.",
            "Pickle before torch.compile is called, and compile in the process that loads it.",
        ),
    ),
)


def wrapper_error(text: str) -> WrapperError | None:
    """Return the entry for an error's traceback and message; None where none fits."""
    for error in WRAPPER_ERRORS:
        if error.pattern.search(text):
            return error
    return None


def find_program_errors(reader: SessionReader) -> Iterator[Finding]:
    """Yield the error that ended the program, where it comes from what torch.compile returned."""
    lines = SourceLines(reader)
    for failure in reader.rows(model.Failure, where="program"):
        text = reader.text(failure.text)[-MAX_TRACEBACK:] if failure.text else ""
        known = wrapper_error(text)
        if known is None:
            continue
        place, evidence = _users_line(reader, lines, text)
        yield Finding(
            kind="program error",
            text=(
                f"The program raised {failure.kind}, because of the object that torch.compile "
                "returned."
            ),
            urgency="failed",
            topic="run",
            place=place,
            view="console",
            evidence=(_message(failure), *evidence),
            explanation=known.explanation,
            remedies=tuple(Remedy(remedy) for remedy in known.remedies),
        )


def _message(failure: model.Failure) -> str:
    message = first_line(failure.message)
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"


def _users_line(
    reader: SessionReader, lines: SourceLines, text: str
) -> tuple[Place | None, tuple[str, ...]]:
    """Return the place of the user's innermost line on the way to the error, and the line."""
    for frame in reversed(parse_frames(text)):
        if lines.may_be_users(frame.file):
            where = f"It happened in {in_file(frame.file, frame.line)}: {frame.code}"
            return place_of_path(reader, frame.file, frame.line), (where,)
    return None, ()
