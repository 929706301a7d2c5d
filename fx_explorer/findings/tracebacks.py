"""torch's traceback of a failed compilation: the innermost error, the stage of the compiler that
raised it, and the user's line below which it happened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer.session.bounds import MAX_TRACEBACK

_FRAME = re.compile(
    r'^[^\S\n]*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>\S+)\n'
    r"(?P<code>[^\n]*)",
    re.MULTILINE,
)

_ERROR = re.compile(r"^(?P<error>(?:\w+\.)*\w*(?:Error|Exception|Unsupported|Exit)\b[^\n]*)", re.M)

_OF_TORCH = re.compile(r"[/\\]torch[/\\](?P<file>(?:_dynamo|_functorch|_inductor|fx|_guards).*)$")
"""Matches a file of torch's compiler."""

_OF_USER = "from user code:"

IN_DYNAMO = "while Dynamo read the Python code"

IN_BACKEND = "in the backend"

IN_AOTAUTOGRAD = "while AOTAutograd traced the forward and backward"

_STAGES = (
    (r"torch[/\\]_dynamo[/\\]guards\.py|produce_guards", "while torch wrote its guards"),
    (r"triton[/\\]", "while Triton compiled a kernel"),
    (
        r"torch[/\\]_inductor[/\\](?:cpp_builder|codecache|runtime|async_compile)",
        "while its code was built",
    ),
    (r"torch[/\\]_inductor[/\\]scheduler", "while Inductor fused operations"),
    (r"torch[/\\]_inductor[/\\]codegen", "while Inductor wrote code"),
    (r"torch[/\\]_inductor[/\\]fx_passes", "in Inductor's graph passes"),
    (r"torch[/\\]_inductor[/\\]", "while Inductor lowered the graph"),
    (r"torch[/\\]_functorch[/\\]", IN_AOTAUTOGRAD),
    (r"torch[/\\]_dynamo[/\\](?:backends|repro)|\bcall_user_compiler$", IN_BACKEND),
    (r"torch[/\\]_dynamo[/\\]", IN_DYNAMO),
)
"""Pattern of a frame's file and function → the stage. Of several that match one frame, the first
counts.
"""

_HELPERS = re.compile(r"torch[/\\]_dynamo[/\\]utils\.py")
"""Matches files of one stage that others use as well."""


def _stage(frames: list[re.Match[str]]) -> str:
    """Return the stage of the innermost frame that belongs to one: each stage is called by an
    earlier one, and AOTAutograd, which Inductor calls, calls Inductor in turn.
    """
    for frame in reversed(frames):
        where = f"{frame['file']} {frame['function']}"
        if _HELPERS.search(where):
            continue
        for pattern, words in _STAGES:
            if re.search(pattern, where):
                return words
    return ""


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True, slots=True)
class CompilerTraceback:
    error: str
    """The innermost error, class and first line: ``IndexError: list index out of range``."""
    stage: str
    """What torch was doing: ``while Dynamo read the Python code``; empty where it is not known."""
    raised_in: str
    """The file of torch that raised it, below ``torch/``; empty where another file did."""
    raised_at: TracebackFrame | None
    """The innermost frame; None where the traceback has none."""
    frames: tuple[TracebackFrame, ...]
    """The frames down to where it was raised, outermost first."""
    user_frames: tuple[TracebackFrame, ...]
    """The frames that Dynamo was reading, outermost first: the user's, and those of libraries that
    they call.
    """


def parse_compiler_traceback(text: str) -> CompilerTraceback:
    """Parse a traceback as torch wrote it. Whatever is not found is empty."""
    text = text[-MAX_TRACEBACK:]
    of_torch, _, of_user = text.partition(_OF_USER)
    errors = [match["error"] for match in _ERROR.finditer(of_torch)]
    # The error that began it is the first; the others were raised because of it.
    error = errors[0] if errors else ""
    frames = list(_FRAME.finditer(of_torch.partition(errors[0])[0] if errors else of_torch))
    stage = _stage(frames)
    user_frames = tuple(_frame(match) for match in _FRAME.finditer(of_user))
    called = tuple(_frame(match) for match in frames)
    raised_at = called[-1] if called else None
    raised_in = _OF_TORCH.search(raised_at.file) if raised_at else None
    file_of_torch = raised_in["file"] if raised_in else ""
    return CompilerTraceback(error, stage, file_of_torch, raised_at, called, user_frames)


def is_of_torch(file: str) -> bool:
    """Return whether a file of a traceback is one of torch's compiler."""
    return _OF_TORCH.search(file) is not None


def parse_frames(text: str) -> list[TracebackFrame]:
    """Return the frames of a traceback of Python, outermost first, wherever a line has them."""
    return [_frame(match) for match in _FRAME.finditer(text[-MAX_TRACEBACK:])]


def _frame(match: re.Match[str]) -> TracebackFrame:
    code = match["code"].strip()
    return TracebackFrame(match["file"], int(match["line"]), match["function"], code)
