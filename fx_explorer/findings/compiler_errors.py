"""Compilations that failed: in which stage, below which line of the user's, by which error, whose
fault it is, and what makes the program run; and functions that torch skipped.

The ways to make it run are changes that a trial can make: another backend, which also shows the
stage that fails, and the call that Dynamo failed in left out of what is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import went_on
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.known_errors import FAULT_WORDS, as_remedy, known_error
from fx_explorer.findings.left_out_calls import without_call
from fx_explorer.findings.skipped_functions import (
    last_break,
    skipped_compilations,
    skipped_function,
)
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.tracebacks import (
    IN_AOTAUTOGRAD,
    IN_DYNAMO,
    CompilerTraceback,
    TracebackFrame,
    is_of_torch,
    parse_compiler_traceback,
)
from fx_explorer.instruments.recompiles.causes import reached_limit
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.session.file_names import file_name, in_file
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.reports import OF_BACKWARD

LONGEST_ERROR = 400
"""Maximum number of characters of an error's message in a sentence; the traceback has the rest."""


def find_compiler_errors(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each function that has no compiled code. What was refused at the
    recompile limit is a finding of its own.
    """
    skipped = {compilation.id for compilation in skipped_compilations(reader)}
    lines = SourceLines(reader)
    by_cause: dict[str, list[_Failed]] = {}
    for compilation in first_variants(reader):
        is_compiled = compilation.status not in ("failed", "skipped")
        if is_compiled and not _has_failed_backward(reader, compilation):
            continue
        if reached_limit(compilation):
            continue
        if compilation.id not in skipped:
            finding = _failed(reader, lines, compilation)
            cause = finding.detail
        elif last_break(reader, compilation)[0]:
            continue  # the finding of the break has the function
        else:
            finding = skipped_function(reader, compilation)
            cause = f"{finding.text}\n{finding.detail}"
        by_cause.setdefault(cause, []).append(_Failed(finding, compilation))
    for failed in by_cause.values():
        yield _of_one_cause(failed)


def _has_failed_backward(reader: SessionReader, compilation: model.Compilation) -> bool:
    failures = reader.rows(model.Failure, compilation=compilation.id, where="compiler")
    return any(failure.message.startswith(OF_BACKWARD) for failure in failures)


MOST_FUNCTIONS = 4
"""Maximum number of functions of one error that are named."""


@dataclass(frozen=True, slots=True)
class _Failed:
    finding: Finding
    compilation: model.Compilation

    @property
    def function(self) -> str:
        """Return the function and where it begins: ``forward (net.py:12)``."""
        row = self.compilation
        name = plain_function(row.function)
        return f"{name} ({in_file(row.file, row.line)})" if row.file else name


def _of_one_cause(failed: Sequence[_Failed]) -> Finding:
    """Return one finding for all functions that failed with the same error. After an error Dynamo
    compiles each function that the failed one calls by itself: the last is nearest to the cause.
    """
    last = failed[-1]
    if len(failed) == 1:
        return last.finding
    count = len(failed)
    others = dict.fromkeys(row.function for row in failed if row.function != last.function)
    evidence = last.finding.evidence
    if others:
        evidence += (f"The same error was raised for {listed(list(others), MOST_FUNCTIONS)}.",)
    return replace(
        last.finding,
        text=f"{last.finding.text.removesuffix('.')} ({counted(count, 'time')}).",
        evidence=evidence,
        count=count,
    )


def _failed(reader: SessionReader, lines: SourceLines, compilation: model.Compilation) -> Finding:
    name = plain_function(compilation.function)
    failures = reader.rows(model.Failure, compilation=compilation.id, where="compiler")
    if not failures:
        broken = _broken_whole_graph(reader, lines, compilation)
        if broken:
            return broken
    text = reader.text(failures[0].text) if failures and failures[0].text else ""
    text = text[-MAX_TRACEBACK:]
    traceback = parse_compiler_traceback(text)
    error = _shortened(traceback.error or compilation.error)
    known = known_error(f"{compilation.error}\n{error}\n{text}")
    if known and known.fault == "torch" and _raised_by_user(lines, traceback):
        known = None
    user_line = _user_line(lines, traceback) or _line_of_failing_guard(reader)
    call = None if name or user_line else _call(lines, traceback)
    evidence = [f"{error}." if not error.endswith((".", "?", "!")) else error]
    evidence += _where(lines, traceback, user_line, call)
    explanation = _unexplained(traceback)
    if known:
        explanation = " ".join(
            part for part in (FAULT_WORDS[known.fault], known.explanation) if part
        )
    stage = f" {traceback.stage}" if traceback.stage else ""
    is_backward = compilation.status not in ("failed", "skipped")
    has_continued = went_on(reader) and not is_backward
    is_suppressed = _is_suppressed(reader, compilation)
    goes_on = ", and the program continued" if has_continued else ""
    if is_backward:
        name = f"The backward of {name or NAMELESS[0].lower() + NAMELESS[1:]}"
    if is_suppressed:
        goes_on = ", and it runs in eager mode, because suppress_errors is set"
    place = place_of_path(reader, compilation.file, compilation.line)
    if user_line:
        place = place_of_path(reader, user_line.file, user_line.line) or place
    elif call:
        place = place_of_path(reader, call.file, call.line)
    remedies = []
    if known:
        remedies += [as_remedy(text) for text in known.remedies]
    remedies += _tryable(reader, lines, traceback, user_line)
    if not is_suppressed:
        remedies.append(_IN_EAGER_MODE)
    return Finding(
        kind="compiler error",
        text=(f"{name or NAMELESS} could not be compiled: an error was raised{stage}{goes_on}."),
        urgency="not compiled" if has_continued else "failed",
        severity="notice" if has_continued else "problem",
        topic="run",
        place=place,
        view="console",
        evidence=tuple(evidence),
        explanation=explanation,
        remedies=tuple(remedies),
    )


NAMELESS = "A function whose name this text does not have"
"""What failed, in a text with a traceback without Dynamo's frames."""


def _call(lines: SourceLines, traceback: CompilerTraceback) -> TracebackFrame | None:
    """Return the user's line that called the compiled function."""
    of_user = None
    for frame in traceback.frames:
        if is_of_torch(frame.file):
            break
        if lines.is_users(frame.file):
            of_user = frame
    return of_user


BREAK_AS_ERROR = "Unsupported"
"""The class of the error that a graph break is with ``fullgraph=True``."""


def _broken_whole_graph(
    reader: SessionReader, lines: SourceLines, compilation: model.Compilation
) -> Finding | None:
    """Return that a function breaks the graph, which fullgraph=True makes an error; None for any
    other error. Dynamo raises it, so no other backend helps.
    """
    failures = reader.rows(model.Failure, where="program", kind=BREAK_AS_ERROR)
    if not failures or not failures[-1].text:
        return None
    traceback = parse_compiler_traceback(reader.text(failures[-1].text)[-MAX_TRACEBACK:])
    user_line = _user_line(lines, traceback)
    if user_line is None:
        return None
    error = _shortened(compilation.error)
    known = known_error(error)
    why, _, _ = error.partition(" Hint: ")
    evidence = [*_below_user_line(traceback, user_line), f"{why.replace(' Explanation:', ':')}"]
    return Finding(
        kind="compiler error",
        text=(
            f"{plain_function(compilation.function)} breaks the graph, which is an error with "
            "fullgraph=True."
        ),
        urgency="failed",
        topic="run",
        place=place_of_path(reader, user_line.file, user_line.line),
        view="console",
        evidence=tuple(evidence),
        explanation=f"{FAULT_WORDS[known.fault]} {known.explanation}".strip() if known else "",
        remedies=(
            *(as_remedy(text) for text in (known.remedies if known else ())),
            Remedy(
                "Remove fullgraph=True: the graph then breaks there, and the code before and "
                "after is compiled.",
                changes={"settings": {"compile.fullgraph": False}},
            ),
        ),
    )


_UNEXPECTED = re.compile(r"(?:Attribute|Key|Index|Assertion|Unbound|Name)\w*Error\b")
"""Matches errors that no code raises on purpose."""


def _unexplained(traceback: CompilerTraceback) -> str:
    """Return a sentence that an unknown error comes from torch's own code; empty if it does not."""
    if traceback.raised_in and _UNEXPECTED.match(traceback.error):
        return (
            f"torch's own code raised it (torch/{traceback.raised_in}) unintentionally: most "
            "likely a PyTorch bug. Report it with the traceback: "
            "github.com/pytorch/pytorch/issues."
        )
    return ""


def _shortened(error: str) -> str:
    line = first_line(error)
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"


def _is_suppressed(reader: SessionReader, compilation: model.Compilation) -> bool:
    """Return whether torch was set to continue after the error (suppress_errors)."""
    return bool(reader.rows(model.Fallback, compilation=compilation.id, kind="failed", limit=1))


def _user_line(lines: SourceLines, traceback: CompilerTraceback) -> TracebackFrame | None:
    """Return the innermost of the user's own lines that Dynamo was reading."""
    for frame in reversed(traceback.user_frames):
        if lines.is_users(frame.file):
            return frame
    return None


_GUARD_AT = re.compile(
    r"Failing guard allocated at (?P<code>[^\n]{0,300}?)  # (?P<file>\S{1,300}):(?P<line>\d{1,9}) "
    r"in (?P<function>\w{1,200})"
)
"""Matches a warning of torch/fx/experimental/symbolic_shapes.py, produce_guards_verbose. Of the
file it has the last 16 characters at least.
"""

MOST_CONSOLE_LINES = 2_000


def _line_of_failing_guard(reader: SessionReader) -> TracebackFrame | None:
    """Return the line that torch printed for a guard that it could not write."""
    for row in reader.rows(model.ConsoleLine, limit=MOST_CONSOLE_LINES):
        match = _GUARD_AT.search(bounded(row.text))
        if match is None:
            continue
        for file in reader.rows(model.SourceFile):
            if file.is_user and file.path.endswith(match["file"].lstrip("./")):
                line = int(match["line"])
                return TracebackFrame(file.path, line, match["function"], match["code"])
    return None


def _where(
    lines: SourceLines,
    traceback: CompilerTraceback,
    user_line: TracebackFrame | None,
    call: TracebackFrame | None,
) -> Iterator[str]:
    """Yield the user's line, and what it calls down to where torch failed; without one, where it
    was raised, and ``call``, for which it was compiled.
    """
    if user_line:
        yield from _below_user_line(traceback, user_line)
    elif traceback.raised_at and _raised_by_user(lines, traceback):
        raised_at = traceback.raised_at
        yield f"It was raised at {in_file(raised_at.file, raised_at.line)}: {raised_at.code}"
    elif traceback.stage and not call:
        yield "torch names no line of the program."
    if call:
        yield f"It was compiled for the call at {in_file(call.file, call.line)}: {call.code}"


def _raised_by_user(lines: SourceLines, traceback: CompilerTraceback) -> bool:
    return traceback.raised_at is not None and lines.is_users(traceback.raised_at.file)


def _below_user_line(traceback: CompilerTraceback, user_line: TracebackFrame) -> Iterator[str]:
    yield f"It happened in {in_file(user_line.file, user_line.line)}: {user_line.code}"
    if user_line not in traceback.user_frames:
        return
    below = traceback.user_frames[traceback.user_frames.index(user_line) + 1 :]
    if below:
        calls = [f"{frame.function} ({file_name(frame.file)}:{frame.line})" for frame in below]
        yield f"which calls {', '.join(calls)}"


def _tryable(
    reader: SessionReader,
    lines: SourceLines,
    traceback: CompilerTraceback,
    user_line: TracebackFrame | None,
) -> Iterator[Remedy]:
    """Yield the ways around it that a trial can make."""
    if user_line is not None:
        tree = lines.tree(user_line.file)
        text = lines.text(user_line.file)
        edited = without_call(text, tree, user_line.line) if tree else None
        if edited:
            yield Remedy(
                f"Keep the call out of the compiled code: {edited.code}. The graph then breaks "
                "there.",
                changes={"overlay": {user_line.file: edited.text}},
            )
    request = reader.request()
    backend = request.backend if request else "inductor"
    for other, what in OTHER_BACKENDS.items():
        # A backend that goes through the stage that failed fails there as well.
        fails = _FAILS_WITH.get(traceback.stage, ())
        if backend not in (other, "eager") and other not in fails:
            # As a setting it also holds where the program gives torch.compile a backend.
            changes = {"settings": {"compile.backend": other}}
            yield Remedy(f'Use backend="{other}", which {what}.', changes=changes)


_IN_EAGER_MODE = Remedy(
    'Run it in eager mode: torch.compiler.set_stance("force_eager").',
    changes={"stance": "force_eager"},
)

_FAILS_WITH = {IN_DYNAMO: ("aot_eager", "eager"), IN_AOTAUTOGRAD: ("aot_eager",)}
"""Stage that failed → the backends that have it, too."""

OTHER_BACKENDS = {
    "aot_eager": "traces the backward like Inductor, but fuses nothing",
    "eager": "runs the graph as Dynamo recorded it, but fuses nothing",
}
"""Backend → what it does. Each does without one more stage of the compiler."""
