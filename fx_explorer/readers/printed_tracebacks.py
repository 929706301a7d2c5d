"""This module finds the tracebacks that Python printed into a text, and says which of them are of a
compilation that failed.

A chain of exceptions is one traceback: what was raised first stands first. Which lines belong to a
message is known by torch's own last sentence (torch/_dynamo/exc.py, ``augment_exc_message``), by
the sentence that links two exceptions, and else by their indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer.model import Stage
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.reports import failed_stage


@dataclass(frozen=True, slots=True)
class OtherLine:
    """A line of a text that is none of torch's messages."""

    number: int
    text: str
    compilation: str
    """The compilation of the last message before it; empty without one."""
    is_after_error: bool
    """Whether that message is one that torch writes just before it raises."""


@dataclass(frozen=True, slots=True)
class PrintedError:
    """An exception as the last lines of a traceback name it."""

    path: str
    """Its class with its module: ``torch._dynamo.exc.Unsupported``."""
    message: str

    @property
    def kind(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class PrintedTraceback:
    text: str
    errors: tuple[PrintedError, ...]
    """What was raised, the cause first."""
    begun_by: OtherLine | None = None
    """Its first line; None for a traceback in one of torch's messages."""

    @property
    def compiler_error(self) -> PrintedError | None:
        """Return the outermost exception of the compiler's; None where another part of the program
        raised.
        """
        of_compiler = [error for error in self.errors if _OF_COMPILER.match(error.path)]
        if of_compiler:
            return of_compiler[-1]
        return self.errors[-1] if _COMPILES.search(self.text) else None

    @property
    def stage(self) -> Stage | None:
        """Return the stage that raised; None where the text does not say it."""
        has_frames = '  File "' in self.text.partition(FROM_USER_CODE)[0]
        error = self.compiler_error
        is_of_dynamo = error is not None and error.path.startswith("torch._dynamo")
        return failed_stage(self.text) if has_frames or is_of_dynamo else None

    @property
    def is_of_backward(self) -> bool:
        """Return whether a backward was being compiled, which is when it first runs."""
        return "in _backward_impl" in self.text


FROM_USER_CODE = "from user code:"

_OF_COMPILER = re.compile(
    r"torch\._(?:dynamo|inductor|functorch|export)\.|triton\.|torch\.fx\.experimental\."
)
"""Matches the exceptions that only the compiler raises."""

_COMPILES = re.compile(
    r'^ *File "[^"\n]{0,4000}/torch/(?:_dynamo/(?:convert_frame|output_graph|symbolic_convert)'
    r"|_functorch/(?:partitioners|_aot_autograd/(?:graph_capture\w*|graph_compile))"
    r"|_inductor/(?:compile_fx|graph|lowering|scheduler|codecache|cpp_builder|async_compile"
    r"|codegen/\w+))\.py\", line",
    re.M,
)
"""Matches a frame of torch that compiles, and is never on the stack while compiled code runs."""

_BEGIN = re.compile(r"\s*Traceback \(most recent call last\):$")

_BEFORE = re.compile(r"(?:> ?){0,8}(?:\[(?:rank|default)?\d{1,7}\]:\s?){0,2}")
"""Matches what quoting and torchrun put before a line."""

_PYTEST = re.compile(r"E {2,}(?=(?P<error>torch\._\w+\.exc\.\w+: )| |$)")
"""Matches what pytest puts before the lines of an exception."""

_ERROR = re.compile(r"(?P<path>[A-Za-z_][\w.]{0,300})(?:: (?P<message>.*))?$")

_LINKED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)

_LAST = ("Set TORCHDYNAMO_VERBOSE=1", "You can suppress this exception", "Set TORCH_LOGS=")

_GOES_ON = ("Found from", FROM_USER_CODE, "    ")

MOST_LINES = 3_000
"""Maximum number of lines of one message."""


def find_tracebacks(lines: Sequence[OtherLine]) -> Iterator[PrintedTraceback]:
    """Yield the tracebacks among lines, in their order. One that is cut off before its exception
    says nothing and is left out.
    """
    texts = [_BEFORE.sub("", bounded(line.text), count=1).rstrip() for line in lines]
    at = 0
    while at < len(texts):
        of_pytest = _PYTEST.match(texts[at])
        if of_pytest and of_pytest["error"]:
            end = _end_of_pytest(texts, at)
            shown = [_PYTEST.sub("", text, count=1) for text in texts[at:end]]
            message = _message(shown, 0)
            if message:
                yield PrintedTraceback("\n".join(shown), (message,), lines[at])
            at = max(end, at + 1)
        elif _BEGIN.match(texts[at]):
            end, errors = _chain(texts, at)
            if errors:
                indent = len(texts[at]) - len(texts[at].lstrip())
                text = "\n".join(_without_indent(line, indent) for line in texts[at:end])
                yield PrintedTraceback(text.strip("\n"), tuple(errors), lines[at])
            at = end
        else:
            at += 1


def traceback_of_message(text: str) -> PrintedTraceback | None:
    """Return the traceback in one of torch's messages; None without one."""
    lines = [OtherLine(0, line, "", is_after_error=False) for line in text.split("\n")]
    return next(iter(find_tracebacks(lines)), None)


def _end_of_pytest(texts: Sequence[str], start: int) -> int:
    end = start
    while end < len(texts) and end - start < MOST_LINES and _PYTEST.match(texts[end] + "  "):
        end += 1
    return end


def _chain(texts: Sequence[str], start: int) -> tuple[int, list[PrintedError]]:
    """Return where the traceback that begins at ``start`` ends, and its exceptions."""
    indent = len(texts[start]) - len(texts[start].lstrip())
    errors = []
    at = start
    while at < len(texts) and _BEGIN.match(texts[at]):
        at += 1
        while at < len(texts) and _without_indent(texts[at], indent).startswith(" "):
            at += 1
        shown = [_without_indent(text, indent) for text in texts[at : at + MOST_LINES]]
        error = _message(shown, 0)
        if error is None:
            break
        errors.append(error)
        at += _length_of_message(shown)
        after = at
        while after < len(texts) and not texts[after].strip():
            after += 1
        if after >= len(texts) or texts[after].strip() not in _LINKED:
            break
        after += 1
        while after < len(texts) and not texts[after].strip():
            after += 1
        at = after
    return max(at, start + 1), errors


def _message(lines: Sequence[str], at: int) -> PrintedError | None:
    """Return the exception that the line at ``at`` names, with the whole of its message."""
    match = _ERROR.match(lines[at]) if at < len(lines) else None
    if match is None:
        return None
    message = [match["message"] or ""]
    for line in lines[at + 1 : _length_of_message(lines[at:]) + at]:
        if line.startswith((FROM_USER_CODE, *_LAST)):
            break
        message.append(line)
    return PrintedError(match["path"], "\n".join(message).strip())


def _length_of_message(lines: Sequence[str]) -> int:
    """Return how many lines the message that begins the lines has."""
    for at, line in enumerate(lines):
        if line.startswith(_LAST):
            return at + 1 + _lines_below(lines[at + 1 :])
        if line in _LINKED:
            return at
        if at and _BEGIN.match(line):
            break
    if _OF_COMPILER.match(lines[0]):
        return 1 + _paragraph(lines[1:])
    return 1 + _lines_below(lines[1:])


def _paragraph(lines: Sequence[str]) -> int:
    """Return how many lines stand before a blank one, with what is indented below it. With
    TORCHDYNAMO_VERBOSE torch ends its message with no sentence.
    """
    count = 0
    while count < len(lines) and lines[count].strip() and not _BEGIN.match(lines[count]):
        count += 1
    return count + _lines_below(lines[count:])


def _lines_below(lines: Sequence[str]) -> int:
    """Return how many lines belong to a message by their indentation, with blank ones between
    them.
    """
    count = 0
    for at, line in enumerate(lines):
        if line.startswith((" ", *_GOES_ON, *_LAST)):
            count = at + 1
        elif line.strip():
            break
    return count


def _without_indent(text: str, indent: int) -> str:
    return text[indent:] if not text[:indent].strip() else text
