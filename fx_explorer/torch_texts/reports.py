"""This module parses torch's reports on incomplete compilations: graph breaks, recompiles,
failures, and the user's stacks in them, in Python's traceback format.

The report of a graph break is the ``dynamo_graph_break_reason`` record
(torch/_dynamo/symbolic_convert.py, ``log_graph_break``; exc.py, ``format_graph_break_message``).
The registry in torch holds templates; the report has the words for this very break. The reason of a
recompile names the compiled code that did not fit, and the check that failed in it. In which stage
a compilation failed is read off the traceback of what was raised, as torch writes it into its logs
(``dynamo_error``).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

from fx_explorer.model import STAGES, Frame, Stage
from fx_explorer.torch_texts import LONGEST_LINE, bounded

_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>.+)\n'
    r'(?:(?P<code> {4,}(?! *File ").*)\n?)?',
    re.M,
)


def parse_stack(text: str) -> tuple[Frame, ...]:
    """Return the frames of a traceback text, outermost first."""
    return tuple(
        Frame(m["file"], int(m["line"]), m["function"].strip(), (m["code"] or "").strip())
        for m in _FRAME.finditer(text)
    )


# Graph breaks.


_PLACE = re.compile(
    r"^Graph break(?: \([^)\n]*\))? in user code at (?P<file>.+):(?P<line>\d+)$", re.M
)
"""Matches the place of a graph break. In brackets TORCH_LOGS may say that it printed the user's
stack before.
"""

_BACKEND = re.compile(
    r"^WON'T CONVERT (?P<function>\S+) (?P<file>.+) line (?P<line>\d+)\n"
    r"=+ TorchDynamo Stack Trace =+\n"
)
"""The record of a backend's exception that becomes a graph break (exc.py,
``unimplemented_with_warning``).
"""
BACKEND_FAILED = "GB0219"
"""torch's id of a break at which the backend raised an error."""
_FAILED_BACKEND = re.compile(
    r"^Backend compiler exception\n\s*Explanation: Backend compiler `[^`\n]{0,200}` failed with "
    r"(?P<error>[^\n]{0,4000}?)(?:\. Adding a graph break\.)?$",
    re.M,
)
"""Matches the graph break that torch makes of a backend's exception (output_graph.py,
``_call_user_compiler``).
"""
_MODULES = re.compile(r"^(?:\w{1,100}\.){1,20}(?=[A-Z]\w{0,100}(?::|$))")
"""Matches the modules before the name of an exception's class."""
_OPERATION_BEGINS = "\nWhile executing %"
_OPERATION = re.compile(
    r"^ *While executing %[^\n]{0,200}? = \w+\[target=(?P<target>[\w.]{1,200})\][^\n]*\n"
    r"(?: *Original traceback:\n(?P<stack>(?: [^\n]*\n)+))?",
    re.M,
)
"""Matches the node that an interpreter of torch was at (torch/fx/interpreter.py), with the user's
stack of it.
"""
_REGISTRY_ID = re.compile(r"/gb/gb(\d+)")
_REASON = re.compile(
    r"^Graph Break Reason: (?P<reason>.*?)(?=^[^\S\n]*Explanation:|^User code traceback:|\Z)",
    re.M | re.S,
)
_EXPLANATION = re.compile(
    r"^[^\S\n]*Explanation: (?P<text>.*?)"
    r"(?=^[^\S\n]*(?:Explanation|Hint):|^[^\S\n]*Developer debug context:|\n\n)",
    re.M | re.S,
)
_HINT = re.compile(
    r"^[^\S\n]*Hint: (?P<text>.*?)(?=^[^\S\n]*Hint:|^[^\S\n]*Developer debug context:|\n\n)",
    re.M | re.S,
)
_USER_STACK = re.compile(
    r"^(?:User code traceback|The graph break occurred in the following user code):\n"
    r"(?P<stack>.*?)(?=^Traceback|\Z)",
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
    """``GB0059``; empty if the report has none."""
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
    """Whether it says that the rest of the function is skipped, after a graph that is compiled."""
    operation_frames: tuple[Frame, ...] = ()
    """The user's stack of the operation at which a backend raised, outermost first; empty for other
    breaks, and where torch does not name the operation.
    """


def parse_break(report: str) -> BreakReport:
    """Parse a report. Missing parts are empty; ``reason`` is then its first line."""
    of_backend = _BACKEND.match(report)
    if of_backend:
        return _backend_report(report, of_backend)
    place = _PLACE.search(report)
    number = _REGISTRY_ID.search(report)
    failed = _FAILED_BACKEND.search(report)
    if failed:
        return _graph_break_of_backend(report, failed)
    stack = _USER_STACK.search(report) or _FROM_USER_CODE.search(report)
    frames = parse_stack(stack["stack"]) if stack else ()
    file, line = "", 0
    if place:
        file, line = place["file"], int(place["line"])
    elif frames:
        file, line = frames[-1].file, frames[-1].line
    explanation = _EXPLANATION.search(report)
    explanation_text = _flat(explanation["text"]) if explanation else ""
    registry_id = f"GB{int(number[1]):04d}" if number else ""
    return BreakReport(
        registry_id=registry_id,
        reason=_reason(report),
        explanation=explanation_text,
        hints=tuple(_flat(hint["text"]) for hint in _HINT.finditer(report)),
        frames=frames,
        file=file,
        line=line,
        is_given_up=_GIVEN_UP.search(report) is not None,
        skips_rest=_REST_SKIPPED.search(report) is not None,
    )


def _backend_report(report: str, match: re.Match[str]) -> BreakReport:
    """Parse the record of a failed backend. It has the exception with its traceback, then the
    user's stack if torch has one; the graph is the whole function.
    """
    trace, _, below = report[match.end() :].partition("\n==========")
    raised, _, _ = trace.partition(_OPERATION_BEGINS)
    _, _, message = raised.rpartition('\n  File "')
    unindented = [line.strip() for line in message.splitlines()[1:] if line[:1].strip()]
    every_line = [line.strip() for line in trace.splitlines() if line.strip()]
    error = next(iter(unindented or every_line[-1:]), "unknown reason")
    return _failed_backend(trace, error, parse_stack(below), (match["file"], int(match["line"])))


def _graph_break_of_backend(report: str, failed: re.Match[str]) -> BreakReport:
    """Parse the report of the graph break that follows a failed backend. It names the exception's
    message and not its class.
    """
    place = _PLACE.search(report)
    stack = _USER_STACK.search(report) or _FROM_USER_CODE.search(report)
    frames = parse_stack(stack["stack"]) if stack else ()
    file, line = (place["file"], int(place["line"])) if place else ("", 0)
    parsed = _failed_backend(report, failed["error"].strip(), frames, (file, line))
    hints = (_flat(hint["text"]) for hint in _HINT.finditer(report))
    return replace(
        parsed,
        hints=tuple(dict.fromkeys(hints)),
        is_given_up=_GIVEN_UP.search(report) is not None,
        skips_rest=_REST_SKIPPED.search(report) is not None,
    )


def _failed_backend(
    text: str, error: str, frames: tuple[Frame, ...], function: tuple[str, int]
) -> BreakReport:
    """Return that a backend raised ``error``, at the line of the operation that torch names in
    ``text``, or at ``function``, (file, line), where it names none.
    """
    operation = _OPERATION.search(text)
    error = _MODULES.sub("", error)
    reason = error
    operation_frames: tuple[Frame, ...] = ()
    if operation:
        reason = f"{error}, while executing {_target(operation['target'])}"
        operation_frames = parse_stack(_as_stack(operation["stack"] or ""))
    file, line = function
    if operation_frames:
        file, line = operation_frames[-1].file, operation_frames[-1].line
        frames = (*frames, *operation_frames)
    return BreakReport(
        registry_id=BACKEND_FAILED,
        reason=reason,
        explanation=f"The backend raised {reason}",
        hints=(),
        frames=frames,
        file=file,
        line=line,
        is_given_up=False,
        operation_frames=operation_frames,
    )


def _as_stack(text: str) -> str:
    """Return a stack at Python's own indentation, whatever it is indented by."""
    return textwrap.indent(textwrap.dedent(text), "  ")


def _target(target: str) -> str:
    """Return ``setitem`` for ``operator.setitem``; operators of torch keep their full names."""
    return target.removeprefix("operator.")


def _reason(report: str) -> str:
    match = _REASON.search(report)
    if match:
        text = _ATTEMPT.sub("", match["reason"].strip() + "\n")
    else:
        text = report
    return next((line.strip() for line in text.splitlines() if line.strip()), "unknown reason")


def _flat(text: str) -> str:
    return " ".join(text.split())


# Recompiles.


_CODE = re.compile(r"#\s")
"""Matches the beginning of the remark with the user's code."""

_PLACE_OF_REASON = re.compile(r"\s#\s(?P<file>[^#\n]+?):(?P<line>\d+) in \S+\s*(?:\(.*\))?$")
"""Matches the user's line, after the code."""


@dataclass(frozen=True, slots=True)
class RecompileReason:
    """A text ``0/0: CHECK  # CODE  # FILE:LINE in FUNCTION`` in its parts
    (torch/_dynamo/guards.py).
    """

    of: str
    """Name of the compilation whose guard failed; empty up to torch 2.2."""
    guard: str
    """The check, without its remark."""
    file: str = ""
    """The end of the path of the user's file; empty where no line is named."""
    line: int = 0
    frames: tuple[Frame, ...] = ()
    """The user's stack that may stand below."""


LONGEST_NAME = 40
"""Characters of the name of a compilation, ``!1/0/3``."""


def parse_reason(text: str) -> RecompileReason:
    """Parse a reason. Missing parts are empty."""
    of, _, failed = text.partition(": ")
    if "/" not in of[:LONGEST_NAME] or " " in of:  # up to torch 2.2 it says only what failed
        of, failed = "", text
    first, _, below = failed.partition("\n")
    code = _CODE.search(first) if len(first) <= LONGEST_LINE else None
    place = _PLACE_OF_REASON.search(first, code.end() - 1) if code else None
    if code is None or place is None:
        return RecompileReason(of, first.strip(), frames=parse_stack(below))
    guard = first[: code.start()].strip()
    return RecompileReason(of, guard, place["file"], int(place["line"]), parse_stack(below))


def version_of(reason: str) -> int:
    """Return 2 for ``0/2: guard``: which of the versions torch's reason is about; -1 for none."""
    number = reason[:LONGEST_NAME].partition(": ")[0].rpartition("/")[2]
    return int(number) if number.isdecimal() else -1


_ABOUT = re.compile(
    r"^(?:[!\d/]+: )?(?:\d+ <=? )?(?P<about>.*?)(?: (?:==|is|<=|<|!=) |, \d{6,}|\. |\s+#|\n|$)"
)


def what_failed(reason: str) -> str:
    """Return the condition on which a guard failed: ``tensor 'x' size mismatch at index 0``,
    ``___check_obj_id(g.__code__``, ``k`` for ``0/3: k == 2 # …``. It is the same for guards on one
    thing with different values. It is cheap, because it is called for every compilation of a
    function.
    """
    match = _ABOUT.match(bounded(reason))
    if not match:
        return reason
    return match["about"]


# Failures.


OF_BACKWARD = "the backward could not be compiled: "
"""What the message of a failure begins with whose forward was compiled."""

_FRAME_OF_FAILURE = re.compile(
    r'^ *File "[^"\n]{0,4000}/torch/(?P<file>[\w/]{1,200}\.py)", line', re.M
)

_STAGE_OF_FILE: tuple[tuple[str, Stage], ...] = (
    ("_inductor/fx_passes/pre_grad.py", "pre_grad"),
    ("_functorch/", "joint"),
    ("_inductor/fx_passes/joint_graph.py", "joint"),
    ("_functorch/partitioners.py", "forward"),
    ("_inductor/graph.py", "post_grad"),
    ("_inductor/lowering.py", "post_grad"),
    ("_inductor/fx_passes/post_grad.py", "post_grad"),
    ("_inductor/select_algorithm.py", "post_grad"),
    ("_inductor/scheduler.py", "schedule"),
    ("_inductor/codegen/", "output_code"),
    ("_inductor/cpp_builder.py", "kernel"),
    ("_inductor/async_compile.py", "kernel"),
    ("_inductor/runtime/", "kernel"),
)
"""Beginning of a file in torch → its stage. Files that several stages use are left out: the driver
(``compile_fx.py``) and the decompositions are in tracebacks of earlier stages, too.
"""

_RAISED_BY_BACKEND = re.compile(
    r"(?<!\s)\s*BackendCompilerFailed: *backend='[^'\n]{0,200}' raised:\s*"
)


def failed_stage(traceback: str) -> Stage:
    """Return the latest stage whose code was running: the backend, if torch only says that it
    raised, and Dynamo, which calls all others, if there was no other.
    """
    reached: set[Stage] = {"dynamo"}
    for frame in _FRAME_OF_FAILURE.finditer(traceback):
        of_file = [stage for start, stage in _STAGE_OF_FILE if frame["file"].startswith(start)]
        reached.update(of_file)
    if reached == {"dynamo"} and "BackendCompilerFailed" in traceback:
        return "backend"
    return max(reached, key=STAGES.index)


def error_of_frame(error: str) -> str:
    """Return why Dynamo gave a frame up, in torch's words. Of a backend that raised it is one line,
    what it raised and where, without torch's hints and stacks.
    """
    if _FAILED_BACKEND.search(error):
        report = parse_break(error)
        at = f" ({report.file}:{report.line})" if report.operation_frames else ""
        return f"{report.explanation}{at}"
    return error


def error_of_backend(error: str) -> str:
    """Return the exception of the backend, without Dynamo's exception around it."""
    return _RAISED_BY_BACKEND.sub("", error, count=1)
