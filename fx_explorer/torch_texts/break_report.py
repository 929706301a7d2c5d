"""torch's graph break reports, taken apart.

The report is the ``dynamo_graph_break_reason`` record (torch/_dynamo/symbolic_convert.py,
``log_graph_break``; exc.py, ``format_graph_break_message``). The registry in torch holds templates;
the report has the words for this very break.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer.model import Frame
from fx_explorer.torch_texts.stacks import parse_stack

_PLACE = re.compile(
    r"^Graph break(?: \([^)\n]*\))? in user code at (?P<file>.+):(?P<line>\d+)$", re.M
)
"""In brackets TORCH_LOGS says that it printed the user's stack before, for the same break."""

_BACKEND = re.compile(
    r"^WON'T CONVERT (?P<function>\S+) (?P<file>.+) line (?P<line>\d+)\n=+ TorchDynamo Stack Trace =+\n"
)
"""The record of a backend's exception that becomes a graph break (exc.py,
``unimplemented_with_warning``).
"""
_BACKEND_ID = "GB0219"
_REGISTRY_ID = re.compile(r"/gb/gb(\d+)")
_REASON = re.compile(
    r"^Graph Break Reason: (?P<reason>.*?)(?=^[^\S\n]*Explanation:|^User code traceback:|\Z)",
    re.M | re.S,
)
_EXPLANATION = re.compile(
    r"^[^\S\n]*Explanation: (?P<text>.*?)(?=^[^\S\n]*(?:Explanation|Hint):|^[^\S\n]*Developer debug context:|\n\n)",
    re.M | re.S,
)
_HINT = re.compile(
    r"^[^\S\n]*Hint: (?P<text>.*?)(?=^[^\S\n]*Hint:|^[^\S\n]*Developer debug context:|\n\n)",
    re.M | re.S,
)
_USER_STACK = re.compile(
    r"^(?:User code traceback|The graph break occurred in the following user code):\n(?P<stack>.*?)(?=^Traceback|\Z)",
    re.M | re.S,
)
_FROM_USER_CODE = re.compile(r"^from user code:\n(?P<stack>.*)", re.M | re.S)
_ATTEMPT = re.compile(
    r"^(?:Encountered graph break (?:when attempting to trace|that we cannot resume from)"
    r"|Failed to handle graph break gracefully)[^\n]*:\n+"
)

_GIVEN_UP = re.compile(
    r"^(?:Graph Break Reason: Failed to handle graph break gracefully"
    r"|Graph break: torch\.compile cannot properly resume from this graph break)",
    re.M,
)

_REST_SKIPPED = re.compile(
    r"^Graph Break Reason: Encountered graph break that we cannot resume from", re.M
)


@dataclass(frozen=True, slots=True)
class BreakReport:
    registry_id: str
    """``GB0059``; empty when the report names none."""
    reason: str
    explanation: str
    hints: tuple[str, ...]
    frames: tuple[Frame, ...]
    """The user's stack, outermost first."""
    file: str
    line: int
    is_given_up: bool
    """Whether the report says that the whole function is skipped; torch may have reported the break
    itself before.
    """
    skips_rest: bool = False
    """Whether it says that the rest of the function is skipped, behind a graph that is compiled."""


def parse_break(report: str) -> BreakReport:
    """Take a report apart. What it lacks stays empty; ``reason`` is then its first line."""
    of_backend = _BACKEND.match(report)
    if of_backend:
        return _backend_report(report, of_backend)
    place = _PLACE.search(report)
    number = _REGISTRY_ID.search(report)
    stack = _USER_STACK.search(report) or _FROM_USER_CODE.search(report)
    frames = parse_stack(stack["stack"]) if stack else ()
    if place:
        file, line = place["file"], int(place["line"])
    else:
        file, line = (frames[-1].file, frames[-1].line) if frames else ("", 0)
    explanation = _EXPLANATION.search(report)
    return BreakReport(
        registry_id=f"GB{int(number[1]):04d}" if number else "",
        reason=_reason(report),
        explanation=_flat(explanation["text"]) if explanation else "",
        hints=tuple(_flat(hint["text"]) for hint in _HINT.finditer(report)),
        frames=frames,
        file=file,
        line=line,
        is_given_up=_GIVEN_UP.search(report) is not None,
        skips_rest=_REST_SKIPPED.search(report) is not None,
    )


def _backend_report(report: str, found: re.Match[str]) -> BreakReport:
    """Take apart the report of a failed backend. It has the exception with its traceback, then the
    user's stack where torch has one; the graph is the whole function.
    """
    trace, _, below = report[found.end() :].partition("\n==========")
    error = next(
        (line for line in reversed(trace.splitlines()) if line.strip()), "unknown reason"
    ).strip()
    explanation = f"The backend raised {error}"
    return BreakReport(
        _BACKEND_ID,
        error,
        explanation,
        (),
        parse_stack(below),
        found["file"],
        int(found["line"]),
        False,
    )


def _reason(report: str) -> str:
    found = _REASON.search(report)
    text = _ATTEMPT.sub("", found["reason"].strip() + "\n") if found else report
    return next((line.strip() for line in text.splitlines() if line.strip()), "unknown reason")


def _flat(text: str) -> str:
    return " ".join(text.split())
