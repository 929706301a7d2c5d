"""This module says how a run ended, what went wrong in it, and what the program printed, with the
user's line where it failed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_source
from fx_explorer.analysis.facts import Fact, Severity, View
from fx_explorer.analysis.whole_session import damage, is_cut_in_a_compile, is_log, not_in_text
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.instruments.kernels.counts import built_kernels, saved_compilations
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.session.queries.compilations import (
    compilation_names,
    draws_by_inductor,
    printed_line_count,
    ran_inductors_graphs,
)

_FRAME = re.compile(r'^[^\S\n]*File "(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)


MOST_CHARACTERS = 100 * MAX_TRACEBACK
"""Maximum number of characters that are read of all tracebacks of a session."""

LEFT_OUT = f"(not shown: the tracebacks before it have more than {MOST_CHARACTERS:,} characters)"


@dataclass(frozen=True, slots=True)
class ExplainedFailure:
    failure: model.Failure
    compilation: str
    traceback: str
    """The whole traceback as Python wrote it; empty when there is none. It comes from outside: make
    it printable before showing it.
    """
    place: Place | None
    """The innermost line of the traceback that is the user's own; None without its file's text."""
    file: str = ""
    """The file of that line; empty where no line is the user's."""
    line: int = 0


def console_lines(
    reader: SessionReader, start: int = 0, stop: int | None = None
) -> list[model.ConsoleLine]:
    """Return one page of the program's output, in order. Texts may hold terminal escapes: never
    send them to a terminal.
    """
    limit = -1 if stop is None else stop - start
    return reader.rows(model.ConsoleLine, offset=start, limit=limit)


def failures(reader: SessionReader) -> list[ExplainedFailure]:
    """Return everything that went wrong, in the order it happened."""
    names = compilation_names(reader)
    user_files = {f.path: f.id for f in reader.rows(model.SourceFile) if f.is_user}
    explained = []
    of_text: dict[int, tuple[str, tuple[str, int]]] = {}
    characters = 0
    for failure in reader.rows(model.Failure):
        if failure.text not in of_text:
            traceback = LEFT_OUT
            if characters < MOST_CHARACTERS:
                traceback = reader.text(failure.text)[:MAX_TRACEBACK]
            characters += len(traceback)
            of_text[failure.text] = traceback, _innermost(traceback, user_files)
        traceback, (file, line) = of_text[failure.text]
        place = place_of_source(reader, user_files[file], line) if file else None
        compilation = names.get(failure.compilation, "")
        explained.append(ExplainedFailure(failure, compilation, traceback, place, file, line))
    return explained


def _innermost(traceback: str, user_files: Collection[str]) -> tuple[str, int]:
    """Return file and line of the innermost frame in one of the user's files; ("", 0) without
    one.
    """
    frames = [(match["path"], int(match["line"])) for match in _FRAME.finditer(traceback)]
    for path, line in reversed(frames):
        if path in user_files:
            return path, line
    return "", 0


CUT = "The log ends during a compile: the process was ended, or the log is incomplete."

LOST_ITS_NAME = (
    "The log was removed, or another file has its name now: it was followed to its end. Follow it "
    "again to read the new file."
)


RAISED_INSPECTING = (
    "It raised in a graph that ran with PyTorch's operators, because nothing is built while "
    "inspecting"
)

OF_EAGER_GRAPHS = f"{RAISED_INSPECTING}: --build shows whether the compiled program raises, too"

NO_COMPILER_HERE = "it needs a C++ compiler, and there is none here"


OTHER_RANDOM_NUMBERS = (
    "PyTorch's operators ran the program's graphs; they draw other random numbers (dropout) than "
    "compiled code. So values that depend on them, such as a loss, differ from a run without "
    "fx-explorer. --build runs the compiled code."
)


def has_other_random_numbers(reader: SessionReader) -> bool:
    """Return whether the program ran with other random numbers than it has alone, because it was
    only inspected.
    """
    request = reader.request()
    return request is not None and not request.build and draws_by_inductor(reader)


IN_EAGER_MODE = "while graphs ran in eager mode: --build runs the compiled code"
"""Where the program's lines come from, after ``printed``."""


def was_printed_in_eager_mode(reader: SessionReader) -> bool:
    """Return whether the program printed something although its graphs were only inspected, so that
    a number it printed is not that of the compiled code.
    """
    is_virtual = (reader.meta("environment") or {}).get("virtual_gpu")
    if reader.meta("build", True) or is_virtual or is_log(reader):
        return False
    return ran_inductors_graphs(reader) and printed_line_count(reader) > 0


def run_facts(reader: SessionReader, waiting: Fact | None = None) -> Iterator[Fact]:
    """Yield how the run ended, what failed, and whether anything was built. With ``waiting``
    nothing is at work: the compiler is paused.
    """
    outcome = reader.meta("outcome")
    if outcome is None and is_log(reader):
        now = "The log is still being read."
        if (reader.meta("log") or {}).get("is_followed"):
            now = "The log is being followed while a job writes it."
        yield Fact("run", "running", f"{now} The facts found so far are below.", view="time")
    elif outcome is None and waiting:
        pass  # the status line says so, and the last fact what can be done meanwhile
    elif outcome is None:
        progress = reader.meta("progress", "")
        text = f"Still at work: {progress}." if progress else "Still at work."
        yield Fact("run", "running", text, view="console")
    elif is_log(reader):
        ended = model.Outcome.from_json(outcome)
        if not ended.went_well:
            severity: Severity = "notice" if ended.kind == "cancelled" else "problem"
            yield Fact("run", severity, first_line(ended.message), view="time")
        elif (reader.meta("log") or {}).get("lost_its_name"):
            yield Fact("run", "notice", LOST_ITS_NAME, view="time")
        yield from log_facts(reader)
        if is_cut_in_a_compile(reader):
            yield Fact("run", "problem", CUT, view="time")
    else:
        yield _ended(reader, model.Outcome.from_json(outcome))
    yield from _facts_of_failures(reader)
    is_virtual = (reader.meta("environment") or {}).get("virtual_gpu")
    if (
        outcome is not None
        and not reader.meta("build", True)
        and not is_virtual
        and reader.count(model.Kernel)
    ):
        yield from _inspection(reader)
    if was_printed_in_eager_mode(reader):
        lines = counted(printed_line_count(reader), "line")
        text = f"Your program printed {lines} {IN_EAGER_MODE}."
        yield Fact("run", "good", text, view="console")
    yield from _differences_from_users_run(reader)


def _facts_of_failures(reader: SessionReader) -> Iterator[Fact]:
    """Yield what could not be recorded or measured: the same of several compilations once, with how
    often it was.
    """
    facts = Counter(
        fact for failure in failures(reader) for fact in _failure_facts(reader, failure)
    )
    for fact, times in facts.items():
        if times > 1:
            fact = replace(fact, text=f"{fact.text} ({times:,} times)")
        yield fact


def _failure_facts(reader: SessionReader, explained_failure: ExplainedFailure) -> Iterator[Fact]:
    failure = explained_failure.failure
    place = explained_failure.place
    message = first_line(failure.message)
    if failure.where == "measuring":
        yield Fact("run", "notice", message, place=place, view="console")
    elif failure.where == "recorder":
        stage = f" ({failure.stage})" if failure.stage else ""
        text = f"One view could not be recorded{stage}: {message}"
        yield Fact("run", "notice", text, view="console")


def _inspection(reader: SessionReader) -> Iterator[Fact]:
    """Yield the fact that the session was an inspection; nothing where all of it was built, to be
    saved.
    """
    kernels = built_kernels(reader)
    if kernels.built == kernels.kernels:
        return
    saved = ""
    if kernels.built:
        saved = f", except what is saved ({listed(saved_compilations(reader), 5)})"
    detail = (
        "Kernels were generated and are shown, but not built, so it is not known whether building "
        "them fails; --build compiles and runs them."
    )
    if has_other_random_numbers(reader):
        detail += f" {OTHER_RANDOM_NUMBERS}"
    text = f"This was an inspection: nothing was built{saved}."
    yield Fact("run", "good", text, detail, view="kernels")


def _differences_from_users_run(reader: SessionReader) -> Iterator[Fact]:
    """Yield how the recorded run differed from the user's, and what the session lacks."""
    request = reader.meta("request") or {}
    was_recorded = reader.count(model.Compilation) and not is_log(reader)
    if was_recorded and request.get("use_caches") is False:
        settings = request.get("settings") or {}
        given = listed((f"{name}={value}" for name, value in settings.items()), 5)
        options = f" and with {given}" if given else ""
        text = (
            f"Recorded without torch's compile caches{options}, unlike your own run (--use-caches)."
        )
        yield Fact("run", "good", text, view="time")
    names = reader.meta("left_out") or []
    if names:
        text = (
            "Left out of this session, because it looks like a secret: the value of "
            f"{listed(names, 5)}."
        )
        yield Fact("run", "good", text, view="console")


def _ended(reader: SessionReader, outcome: model.Outcome) -> Fact:
    """Say how the program ended."""
    name = (reader.meta("target") or {}).get("name", "The program")
    if outcome.is_early:
        early = ", although the program would have continued"
    else:
        early = ""
    texts = {
        "finished": f"{name} ran to its end.",
        "raised": f"{name} stopped with an error.",
        "exited": f"{name} ended the program itself (exit status {outcome.exit_code}){early}.",
        "killed": f"{name} was ended by a signal.",
        "timed_out": f"{name} took too long and was stopped.",
        "cancelled": "The capture was cancelled; what was recorded so far is kept.",
        "incomplete": f"{name} ran to its end, but not all of it could be recorded.",
        "not_started": "Nothing was compiled: the target could not be started.",
    }
    if outcome.went_well:
        severity: Severity = "notice" if outcome.is_early else "good"
    else:
        severity = "notice" if outcome.kind == "cancelled" else "problem"
    place = _place_of_the_programs_failure(reader)
    detail = outcome.message or what_ran(reader)
    if outcome.in_eager_graphs:
        detail += f". {OF_EAGER_GRAPHS}"
    view: View = "overview" if severity == "good" else "console"
    return Fact("run", severity, texts[outcome.kind], detail, place, view)


def _place_of_the_programs_failure(reader: SessionReader) -> Place | None:
    for explained_failure in failures(reader):
        if explained_failure.place and explained_failure.failure.where == "program":
            return explained_failure.place
    return None


def what_ran(reader: SessionReader) -> str:
    """Return ``model with 2,762 parameters · forward and backward · cpu · torch 2.13.0``. Unknown
    parts are left out.
    """
    target, environment = reader.meta("target") or {}, reader.meta("environment") or {}
    request = reader.meta("request") or {}
    parameters = target.get("parameters") or 0
    kinds = {"module": "model", "function": "function", "script": "script"}
    size = kinds.get(target.get("kind", ""), "")
    if size and parameters:
        size = f"{size} with {counted(parameters, 'parameter')}"
    if target.get("train") or reader.count(model.Graph, stage="backward"):
        trained = "forward and backward"
    else:
        trained = "forward only" if reader.count(model.Graph) else ""
    if environment.get("torch"):
        torch = f"torch {environment['torch']}"
    else:
        torch = ""
    backend = request.get("backend", "inductor")
    other_backend = f"backend {backend}" if backend != "inductor" else ""
    parts = (size, trained, ran_on(environment), torch, other_backend)
    return " · ".join(part for part in parts if part)


def ran_on(environment: Mapping[str, Any]) -> str:
    """Return ``virtual H100 SXM``, the name of the GPU that the process used, else ``cpu``; empty
    where it is unknown.
    """
    virtual = environment.get("virtual_gpu")
    if virtual:
        return f"virtual {virtual}"
    return str(environment.get("gpu") or environment.get("device") or "")


# What a TORCH_TRACE log was read to be, as facts for the overview of its session.

NOT_TOLD = "A log does not say what else the program did, or how it ended."

NOT_IN_TEXT = "This text does not have: {}. TORCH_TRACE writes a complete log."

NOT_IN_DIRECTORY = (
    "It begins with AOTAutograd's graphs and has nothing from Dynamo: no graph breaks, guards or "
    "times."
)


ONLY_NAMES = (
    "It has only names of nodes and kernels. The graphs and the code are in the package or debug "
    "directory that it comes from."
)

ONLY_MEMORY = (
    "It has the allocator's actions, with Python stacks, but no graphs, graph breaks or guards."
)

ONLY_TIMES = "It has what ran and for how long, but no graphs, graph breaks or guards."

ONLY_TRITON = "It has what Triton compiled and launched, but no graphs, graph breaks or guards."


ONLY_OF_PLUGIN = "A plug-in read it: it has what the plug-in wrote into the session."


def _provenance_fact(name: str, log: Mapping[str, Any], whole: str) -> Fact:
    text = f"{name} is a table from torch: what each kernel computes{whole}."
    return Fact("run", _severity(whole), text, ONLY_NAMES, view="source")


def _tritonparse_fact(name: str, log: Mapping[str, Any], whole: str) -> Fact:
    events = f"{counted(_records(log), 'event')}{whole}: {_kinds_with_counts(log)}"
    text = f"{name} is a log of tritonparse: {events}."
    return Fact("run", _severity(whole), text, ONLY_TRITON, view="kernels")


def _snapshot_fact(name: str, log: Mapping[str, Any], whole: str) -> Fact:
    events = counted(_records(log), "event")
    text = f"{name} is a CUDA memory snapshot: {events} of its history."
    return Fact("run", _severity(whole), text, ONLY_MEMORY, view="source")


def _profile_fact(name: str, log: Mapping[str, Any], whole: str) -> Fact:
    text = f"{name} is a profile of torch.profiler: {counted(_records(log), 'event')}{whole}."
    return Fact("run", _severity(whole), text, ONLY_TIMES, view="profile")


def _plugin_fact(name: str, log: Mapping[str, Any], whole: str) -> Fact:
    text = f"{name} is {log.get('words')}, read by {log.get('plugin')}."
    return Fact("run", _severity(whole), text, ONLY_OF_PLUGIN, view="source")


_OF_OTHER_FILES: dict[str, Callable[[str, Mapping[str, Any], str], Fact]] = {
    "provenance": _provenance_fact,
    "tritonparse": _tritonparse_fact,
    "memory_snapshot": _snapshot_fact,
    "profile": _profile_fact,
    "plugin": _plugin_fact,
}
"""Format of a file that is no log of torch's → the fact that says what it is. ``whole`` is empty
where a part of it could not be read.
"""


def _records(log: Mapping[str, Any]) -> int:
    return int(log.get("records", 0))


def _severity(whole: str) -> Severity:
    return "good" if whole else "notice"


def log_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much of the log was read, and which parts were not."""
    log = reader.meta("log") or {}
    name = (reader.meta("target") or {}).get("name", "The file")
    damages = damage(reader)
    whole = "" if damages else ", all of them read"
    severity = _severity(whole)
    records = _records(log)
    if log.get("format") == "torch_logs":
        text = f"{name} has none of torch's messages."
        if records:
            text = (
                f"{name} has {counted(records, 'message')} that torch printed: "
                f"{_kinds_with_counts(log)}."
            )
        raised = reader.has(model.Failure)
        ended = "how other compilations ended" if raised else "how compilations ended"
        absent = [*not_in_text(reader), "times", ended]
        detail = NOT_IN_TEXT.format(listed(absent, 8))
        yield Fact("run", severity, text, detail, view="source")
    elif log.get("format") == "debug_directory":
        text = f"{name} is a TORCH_COMPILE_DEBUG directory: {counted(records, 'file')}{whole}."
        detail = NOT_IN_DIRECTORY
        logs_beside = log.get("beside") or []
        if logs_beside:
            detail += (
                f" torch wrote a log of the same run, which has more: fx-explorer {logs_beside[0]}"
            )
        yield Fact("run", severity, text, detail, view="source")
    elif log.get("format") in _OF_OTHER_FILES:
        yield _OF_OTHER_FILES[log["format"]](name, log, whole)
    else:
        text = f"{name} is a TORCH_TRACE log: {counted(records, 'record')}{whole}."
        yield Fact("run", severity, text, NOT_TOLD, view="source")
    ranks = [rank for rank in log.get("ranks", ()) if rank >= 0]
    if len(ranks) > 1:
        text = (
            f"{counted(len(ranks), 'rank')} wrote into this file ({listed(map(str, ranks), 8)}), "
            "each with its own [0/0]."
        )
        detail = f"To separate and compare them: fx-explorer ranks {name}"
        yield Fact("run", "notice", text, detail)
    if damages:
        text = f"Parts of the log are damaged: {'; '.join(damages)}."
        yield Fact("run", "notice", text, _first_damaged_lines(log))
    unknown = log.get("unknown") or {}
    if unknown:
        kinds = listed([f"{kind} ({count:,})" for kind, count in sorted(unknown.items())], 6)
        yield Fact(
            "run", "notice", f"Records of unknown kinds are kept as texts: {kinds}.", view="source"
        )


def _kinds_with_counts(log: Mapping[str, Any]) -> str:
    """Return ``graph (3), guards (12)``: the kinds of records that were read."""
    kinds = log.get("kinds") or {}
    return listed([f"{kind} ({count:,})" for kind, count in kinds.items()], 8)


def _first_damaged_lines(log: Mapping[str, Any]) -> str:
    """Return ``First in lines 12 and 40.``; empty where no line is known."""
    lines = list(dict.fromkeys(f"{line:,}" for line in log.get("damaged_lines", ())))
    if not lines:
        return ""
    noun = "line" if len(lines) == 1 else "lines"
    return f"First in {noun} {listed(lines)}."
