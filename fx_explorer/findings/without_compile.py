"""The program compared with itself without torch.compile: another error, or other lines that it
prints. What torch.compile returns is a wrapper, with other names for the parameters and another
class, and a program may depend on either without a word of the compiler's.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.words import first_line
from fx_explorer.findings.compile_edits import COPY_BEFORE, compiling_in_place, without_asking
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.trials import TrialWorker, recapture, straight_through

MOST_LINES = 2_000
"""Maximum number of lines of output that are compared."""

SHOWN_LINES = 3

RELATIVE = 1e-2
"""Relative difference of two printed numbers from which on they differ: rounding is below it."""

ABSOLUTE = 1e-4

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)(?!\w)")

_NAMES = re.compile(r", grad_fn=<\w+>|\b0x[0-9a-f]+\b")
"""Matches what the text of a tensor or an object has besides its values."""

_TIMES = r"\b(?:time|took|elapsed|seconds|speed)|\d\s*(?:s|ms|us|sec|it/s|GB|MB|GiB|MiB)\b"

OF_TIME = re.compile(_TIMES, re.I)
"""Matches lines that say how long something took or how much it needed: these differ anyway."""

OF_COMPILING = re.compile(rf"{_TIMES}|\bcompil", re.I)
"""Matches these, and lines about compiling, which may be a time without a unit, or a number of
compilations.
"""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """The visible results of a program: its output and how it ended."""

    ended: str
    """``finished``, or the first line of its error."""
    printed: tuple[str, ...]
    graphs: int = 0


@dataclass(frozen=True, slots=True)
class CompileCall:
    """A line of the user's that binds the result of torch.compile, and its edits."""

    file: str
    line: int
    edits: tuple[tuple[str, str], ...]
    """(what the line does instead, the file's text with it), the better ones first."""


@dataclass(frozen=True, slots=True)
class AskedLine:
    """A line of the user's that asks whether it is compiled."""

    file: str
    line: int
    text: str
    """The file's text with False in place of each such call."""


@dataclass(frozen=True, slots=True)
class WithoutCompile:
    """A program with torch.compile beside the program without it."""

    ended_with: str
    ended_without: str
    printed_with: tuple[str, ...] = ()
    printed_without: tuple[str, ...] = ()
    compile_call: CompileCall | None = None
    helps: str = ""
    """The edit with which the program did what it does without torch.compile, and something was
    compiled; empty where none did.
    """
    asked: AskedLine | None = None
    """The line that asks whether it is compiled, where that makes the difference."""
    eager: tuple[ProgramRun, ProgramRun] | None = None
    """Two runs without torch.compile."""

    @property
    def differs(self) -> bool:
        return self.ended_with != self.ended_without or bool(self.printed_with)


def run_of(reader: SessionReader) -> ProgramRun | None:
    """Return what the program of a session did; None where that is not known: it runs, or was
    stopped.
    """
    recorded = reader.meta("outcome")
    outcome = model.Outcome.from_json(recorded) if recorded else None
    if outcome is None or not outcome.is_of_program:
        return None
    ended: str = outcome.kind
    if ended != "finished":
        ended = first_line(outcome.message) or ended
    lines = reader.rows(model.ConsoleLine, stream="stdout", limit=MOST_LINES)
    graphs = reader.count(model.Graph)
    return ProgramRun(ended, tuple(line.text for line in lines), graphs)


IN_PLACE = "module.compile()"

BY_FORWARD = "module.forward = torch.compile(module.forward)"


def users_compile_call(reader: SessionReader) -> CompileCall | None:
    """Return the first statement of the user's that binds the result of torch.compile; None without
    one.
    """
    lines = SourceLines(reader)
    for file in reader.rows(model.SourceFile):
        tree = lines.tree(file.path) if file.is_user else None
        if tree is None:
            continue
        text = lines.text(file.path)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign):
                continue
            in_place = compiling_in_place(text, node.lineno)
            by_forward = compiling_in_place(text, node.lineno, by_forward=True)
            if in_place and by_forward:
                edits = ((IN_PLACE, in_place), (BY_FORWARD, by_forward))
                return CompileCall(file.path, node.lineno, edits)
    return None


def line_that_asks(reader: SessionReader) -> AskedLine | None:
    """Return the first line of the user's that calls is_compiling(); None without one."""
    lines = SourceLines(reader)
    for file in reader.rows(model.SourceFile):
        tree = lines.tree(file.path) if file.is_user else None
        if tree is None:
            continue
        asked = without_asking(lines.text(file.path), tree)
        if asked:
            line, text = asked
            return AskedLine(file.path, line, text)
    return None


async def compare_without_compile(
    request: CaptureRequest,
    before: ProgramRun,
    compile_call: CompileCall | None,
    asked: AskedLine | None,
    worker: TrialWorker,
) -> WithoutCompile | None:
    """Run the program twice without torch.compile, and hold against it what it did with it. Where
    they differ, run it with the module compiled in place, and as if it did not ask whether it is
    compiled. None where two runs without differ.
    """
    plain = straight_through(request, without_compile=True)
    first, second = await run_program(plain, worker), await run_program(plain, worker)
    if first is None or second is None or first.ended != second.ended:
        return None
    differing = list(differing_lines(before, first, second))
    compared = WithoutCompile(
        before.ended,
        first.ended,
        tuple(now for now, _ in differing[:SHOWN_LINES]),
        tuple(then for _, then in differing[:SHOWN_LINES]),
        compile_call,
        eager=(first, second),
    )
    if not compared.differs:
        return compared
    file, edits = (compile_call.file, compile_call.edits) if compile_call else ("", ())
    for edit, text in edits:
        overlay = {**request.overlay, file: text}
        edited = await run_program(straight_through(request, overlay=overlay), worker)
        if _does_the_same(edited, first, second):
            return replace(compared, helps=edit)
    if asked:
        overlay = {**request.overlay, asked.file: asked.text}
        edited = await run_program(straight_through(request, overlay=overlay), worker)
        if _does_the_same(edited, first, second):
            return replace(compared, asked=asked)
    return compared


def _does_the_same(edited: ProgramRun | None, first: ProgramRun, second: ProgramRun) -> bool:
    """Return whether an edited program compiles something, and does what it does without."""
    if edited is None or edited.ended != first.ended or not edited.graphs:
        return False
    return not list(differing_lines(edited, first, second))


async def run_program(request: CaptureRequest, worker: TrialWorker) -> ProgramRun | None:
    """Run the program of a request, and return what it did; None where that is not known."""
    return (await recapture(request, worker, run_of)).found


def differing_lines(
    now: ProgramRun,
    first: ProgramRun,
    second: ProgramRun,
    left_out: re.Pattern[str] = OF_COMPILING,
) -> Iterator[tuple[str, str]]:
    """Yield (line, line without torch.compile) where a run printed otherwise than two runs without
    it, which agree. A line that is missing is empty. Nothing where a run did not come to its end:
    then it printed fewer lines. Lines that ``left_out`` matches are not compared.
    """
    if now.ended != first.ended or len(first.printed) != len(second.printed):
        return
    for line, before, again in zip_longest(
        now.printed, first.printed, second.printed, fillvalue=""
    ):
        if left_out.search(before) or left_out.search(line):
            continue
        if _is_alike(before, again) and not _is_alike(line, before):
            yield line, before


def _is_alike(line: str, other: str) -> bool:
    """Return whether two lines are the same but for rounding."""
    line, other = _NAMES.sub("", line), _NAMES.sub("", other)
    if line == other:
        return True
    if _without_numbers(line) != _without_numbers(other):
        return False
    return all(map(_is_same_number, _NUMBER.findall(line), _NUMBER.findall(other)))


def _is_same_number(text: str, other: str) -> bool:
    """Return whether two printed numbers are the same but for rounding, which whole numbers (sizes,
    indices, integer tensors) do not have.
    """
    if _is_whole(text) and _is_whole(other):
        return int(text) == int(other)
    return _is_close(float(text), float(other))


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdigit()


FAR_OFF = 0.1
"""Relative difference of two printed numbers that rounding does not make."""


def is_far_off(line: str, other: str) -> bool:
    """Return whether two lines that differ have other words, or numbers that are far apart."""
    line, other = _NAMES.sub("", line), _NAMES.sub("", other)
    if _without_numbers(line) != _without_numbers(other):
        return True
    numbers = [float(text) for text in _NUMBER.findall(line)]
    others = [float(text) for text in _NUMBER.findall(other)]
    for number, expected in zip(numbers, others, strict=True):
        if _is_close(number, expected):
            continue
        if not abs(number - expected) <= FAR_OFF * abs(expected):
            return True
    return False


def has_no_fraction(line: str) -> bool:
    """Return whether a line has whole numbers only, such as a number of compilations."""
    return all(map(_is_whole, _NUMBER.findall(line)))


def _without_numbers(line: str) -> str:
    """Return a line without its numbers, and the spaces with which they are aligned."""
    return "".join(_NUMBER.sub("#", line).split())


def _is_close(number: float, other: float) -> bool:
    if math.isnan(number) or math.isnan(other):
        return math.isnan(number) and math.isnan(other)
    if math.isinf(number) or math.isinf(other):
        return number == other
    return abs(number - other) <= ABSOLUTE + RELATIVE * max(abs(number), abs(other))


OF_THE_WRAPPER = (
    "Its graphs ran with PyTorch's operators here, so the generated code is not the cause. "
    "torch.compile(module) returns a wrapper of another class, and its parameter names begin with "
    "_orig_mod.; code that looks for a class or a name does not find it."
)


def without_compile_findings(
    compared: WithoutCompile, reader: SessionReader | None = None
) -> Iterator[Finding]:
    """Yield a finding where the program ends otherwise without torch.compile, or prints otherwise
    and does not where the module is compiled in place, or is not asked whether it is compiled.
    Other differences may be rounding that has grown.
    """
    fails = compared.ended_with != compared.ended_without
    if not fails and not compared.helps and not compared.asked:
        return
    evidence = []
    if fails:
        evidence.append(
            f"With torch.compile it ended with: {compared.ended_with}; without: "
            f"{compared.ended_without}."
        )
    for now, before in zip(compared.printed_with, compared.printed_without, strict=True):
        evidence.append(f"With torch.compile it prints “{now}”, without “{before}”.")
    call = compared.compile_call
    remedies = []
    if call and compared.helps:
        remedies.append(
            Remedy(
                f"At {in_file(call.file, call.line)} write {compared.helps} instead of "
                "torch.compile(module). The module then keeps its class, and the names of its "
                f"parameters.{f' {COPY_BEFORE}' if compared.helps == BY_FORWARD else ''}",
                state="tried",
                result="it then behaves as without torch.compile, and is compiled.",
            )
        )
    asked = compared.asked
    if asked:
        evidence.append(
            f"{in_file(asked.file, asked.line)} checks whether it is compiled. Compiled code "
            "always takes the branch that Dynamo traced: code after an early return never runs."
        )
        remedies.append(
            Remedy(
                "Remove the branch on is_compiling() if compiled code must behave like eager mode.",
                state="tried",
                result="replaced by False, it behaves as without torch.compile.",
            )
        )
    yield Finding(
        kind="otherwise without",
        text="The program behaves differently with torch.compile than without it.",
        urgency="failed" if fails else "wrong",
        topic="run",
        place=place_of_path(reader, call.file, call.line) if call and reader else None,
        view="console",
        evidence=tuple(evidence),
        explanation="" if asked else OF_THE_WRAPPER,
        remedies=tuple(remedies),
    )
