"""How a run ended, what went wrong in it, and what the program printed, with the user's line where
it failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_source
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.whole_session import damage, is_log, not_in_text
from fx_explorer.analysis.words import counted, first_line, listed
from fx_explorer.instruments.kernels.counts import built_kernels, saved_compilations
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.session.queries.compilations import compilation_names, draws_by_inductor

_FRAME = re.compile(r'^[^\S\n]*File "(?P<path>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)


MOST_CHARACTERS = 100 * MAX_TRACEBACK
"""Characters of all tracebacks of a session that are read."""

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
    """The innermost line of the traceback that is the user's own."""


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
    found = []
    of_text: dict[int, tuple[str, Place | None]] = {}
    characters = 0
    for failure in reader.rows(model.Failure):
        if failure.text not in of_text:
            traceback = LEFT_OUT
            if characters < MOST_CHARACTERS:
                traceback = reader.text(failure.text)[:MAX_TRACEBACK]
            characters += len(traceback)
            of_text[failure.text] = traceback, _innermost(reader, traceback, user_files)
        traceback, place = of_text[failure.text]
        found.append(
            ExplainedFailure(failure, names.get(failure.compilation, ""), traceback, place)
        )
    return found


def _innermost(reader: SessionReader, traceback: str, user_files: dict[str, int]) -> Place | None:
    frames = [(match["path"], int(match["line"])) for match in _FRAME.finditer(traceback)]
    for path, line in reversed(frames):
        if path in user_files:
            return place_of_source(reader, user_files[path], line)
    return None


LOST_ITS_NAME = (
    "The log was removed, or another file has its name now: it was followed to its end. "
    "Follow it again to see what is "
    "written now."
)


RAISED_INSPECTING = (
    "It raised in a graph that ran with PyTorch's operators, because nothing is built while "
    "inspecting"
)

OF_EAGER_GRAPHS = f"{RAISED_INSPECTING}: --build shows whether the compiled program raises, too"

NO_COMPILER_HERE = "it needs a C++ compiler, and there is none here"


OTHER_RANDOM_NUMBERS = (
    "The program's graphs ran by PyTorch's operators, which draw other random numbers "
    "(dropout) than the compiled code "
    "does: what depends on them, such as a loss, is not what the program prints alone. "
    "--build runs the compiled code."
)


def has_other_random_numbers(reader: SessionReader) -> bool:
    """Return whether the program ran with other random numbers than it has alone, because it was
    only inspected.
    """
    request = reader.request()
    return request is not None and not request.build and draws_by_inductor(reader)


def run_facts(reader: SessionReader, waiting: Fact | None = None) -> Iterator[Fact]:
    """Yield how the run ended or where it waits (``waiting``), what failed, and whether anything
    was built.
    """
    outcome = reader.meta("outcome")
    if waiting:
        yield waiting
    elif outcome is None and is_log(reader):
        is_followed = (reader.meta("log") or {}).get("is_followed")
        now = (
            "The log is followed while a job writes it."
            if is_followed
            else "The log is still being read."
        )
        yield Fact("run", "notice", f"{now} What was found of it so far is below.", view="time")
    elif outcome is None:
        progress = reader.meta("progress", "")
        yield Fact(
            "run",
            "notice",
            "Still at work" + (f": {progress}" if progress else "") + ".",
            view="console",
        )
    elif is_log(reader):
        ended = model.Outcome.from_json(outcome)
        if not ended.went_well:
            severity: Severity = "notice" if ended.kind == "cancelled" else "problem"
            yield Fact("run", severity, first_line(ended.message), view="time")
        elif (reader.meta("log") or {}).get("lost_its_name"):
            yield Fact("run", "notice", LOST_ITS_NAME, view="time")
        yield from log_facts(reader)
    else:
        yield _ended(reader, model.Outcome.from_json(outcome))
    for explained_failure in failures(reader):
        failure, message = explained_failure.failure, first_line(explained_failure.failure.message)
        if failure.where == "compiler":
            what = "Compiling raised an error, and the program continued"
            yield Fact(
                "run",
                "notice" if went_on(reader) else "problem",
                f"{what if went_on(reader) else 'The compiler failed'}: {message}",
                place=explained_failure.place,
                view="console",
            )
        elif failure.where == "measuring":
            yield Fact("run", "notice", message, place=explained_failure.place, view="console")
        elif failure.where == "recorder":
            stage = f" ({failure.stage})" if failure.stage else ""
            yield Fact(
                "run", "notice", f"One view could not be recorded{stage}: {message}", view="console"
            )
    is_virtual = (reader.meta("environment") or {}).get("virtual_gpu")
    if (
        outcome is not None
        and not reader.meta("build", True)
        and not is_virtual
        and reader.count(model.Kernel)
    ):
        yield from _inspection(reader)
    yield from _differences_from_users_run(reader)


def _inspection(reader: SessionReader) -> Iterator[Fact]:
    """Say that the session was an inspection; nothing where all of it was built, to be saved."""
    kernels = built_kernels(reader)
    if kernels.built == kernels.kernels:
        return
    saved = ""
    if kernels.built:
        saved = f", except what is saved ({listed(saved_compilations(reader), 5)})"
    detail = (
        "Kernels were generated and are shown, but not built, so it is not known whether building "
        "them fails; --build compiles and runs them. "
        f"{OTHER_RANDOM_NUMBERS if has_other_random_numbers(reader) else ''}"
    ).rstrip()
    text = f"This was an inspection: nothing was built{saved}."
    yield Fact("run", "good", text, detail, view="kernels")


def _differences_from_users_run(reader: SessionReader) -> Iterator[Fact]:
    """Say in what the recorded run was another one than the user's, and what the session lacks."""
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
            "Left out of this session, since it looks like a secret: the value of "
            f"{listed(names, 5)}."
        )
        yield Fact("run", "good", text, view="console")


def went_on(reader: SessionReader) -> bool:
    """Return whether the program came to its end, so that it caught what compiling raised, or torch
    was told to pass over it (``suppress_errors``).
    """
    outcome = reader.meta("outcome")
    return outcome is not None and model.Outcome.from_json(outcome).went_well


def _ended(reader: SessionReader, outcome: model.Outcome) -> Fact:
    """Say how the program ended."""
    name = (reader.meta("target") or {}).get("name", "The program")
    early = ", although more of it was left to run" if outcome.is_early else ""
    told = {
        "finished": f"{name} ran to its end.",
        "raised": f"{name} stopped with an error.",
        "exited": f"{name} ended the program itself (exit status {outcome.exit_code}){early}.",
        "killed": f"{name} was ended by a signal.",
        "timed_out": f"{name} took too long and was stopped.",
        "cancelled": "The capture was cancelled; what was seen until then is kept.",
        "incomplete": f"{name} continued to its end, but not all of it could be recorded.",
        "not_started": "Nothing was compiled: the target could not be started.",
    }
    if outcome.went_well:
        severity: Severity = "notice" if outcome.is_early else "good"
    else:
        severity = "notice" if outcome.kind == "cancelled" else "problem"
    place = next(
        (f.place for f in failures(reader) if f.place and f.failure.where == "program"), None
    )
    detail = outcome.message or what_ran(reader)
    if outcome.in_eager_graphs:
        detail += f". {OF_EAGER_GRAPHS}"
    return Fact(
        "run",
        severity,
        told[outcome.kind],
        detail,
        place,
        "overview" if severity == "good" else "console",
    )


def what_ran(reader: SessionReader) -> str:
    """Return ``model with 2,762 parameters · forward and backward · cpu · torch 2.13.0``. What is
    not known is left out.
    """
    target, environment = reader.meta("target") or {}, reader.meta("environment") or {}
    request = reader.meta("request") or {}
    parameters = target.get("parameters") or 0
    kind = {"module": "model", "function": "function", "script": "script"}.get(
        target.get("kind", ""), ""
    )
    size = f"{kind} with {counted(parameters, 'parameter')}" if kind and parameters else kind
    if target.get("train") or reader.count(model.Graph, stage="backward"):
        trained = "forward and backward"
    else:
        trained = "forward only" if reader.count(model.Graph) else ""
    torch = f"torch {environment['torch']}" if environment.get("torch") else ""
    backend = request.get("backend", "inductor")
    told = (
        size,
        trained,
        ran_on(environment),
        torch,
        f"backend {backend}" if backend != "inductor" else "",
    )
    return " · ".join(part for part in told if part)


def ran_on(environment: Mapping[str, Any]) -> str:
    """Return ``virtual H100 SXM``, the name of the GPU that the process used, else ``cpu``; empty
    where that is not known.
    """
    virtual = environment.get("virtual_gpu")
    if virtual:
        return f"virtual {virtual}"
    return str(environment.get("gpu") or environment.get("device") or "")


# What a TORCH_TRACE log was read to be, as facts for the overview of its session.

NOT_TOLD = "A log says nothing of what the program did besides, or of how it ended."

NOT_IN_TEXT = "Not in this text: {}. TORCH_TRACE writes a log that has all."

NOT_IN_DIRECTORY = (
    "It begins with AOTAutograd's graphs: of Dynamo, breaks, guards and times there is "
    "nothing in it."
)


ONLY_NAMES = (
    "It has names of nodes and kernels. The graphs and the code are in the package or debug "
    "directory it is from."
)

ONLY_TRITON = (
    "It has what Triton compiled and launched: of torch's graphs, breaks and guards there is "
    "nothing in it."
)


def log_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much of the log was read, and what was not."""
    told = reader.meta("log") or {}
    name = (reader.meta("target") or {}).get("name", "The file")
    found = damage(reader)
    whole = "" if found else ", all of them read"
    records = int(told.get("records", 0))
    if told.get("format") == "torch_logs":
        has = listed(
            [f"{kind} ({count:,})" for kind, count in (told.get("kinds") or {}).items()], 8
        )
        text = f"{name} has {counted(records, 'message')} that torch printed for TORCH_LOGS: {has}."
        absent = [*not_in_text(reader), "times", "how compilations ended"]
        detail = NOT_IN_TEXT.format(listed(absent, 8))
        yield Fact("run", "notice" if found else "good", text, detail, view="source")
    elif told.get("format") == "debug_directory":
        text = (
            f"{name} is a directory that torch wrote for TORCH_COMPILE_DEBUG: "
            f"{counted(records, 'file')}{whole}."
        )
        beside = told.get("beside") or []
        more = (
            f" torch wrote a log of the same run, which has more: fx-explorer {beside[0]}"
            if beside
            else ""
        )
        yield Fact(
            "run", "notice" if found else "good", text, f"{NOT_IN_DIRECTORY}{more}", view="source"
        )
    elif told.get("format") == "provenance":
        text = f"{name} is a table of torch's: what each kernel computes{whole}."
        yield Fact("run", "notice" if found else "good", text, ONLY_NAMES, view="source")
    elif told.get("format") == "tritonparse":
        has = listed(
            [f"{kind} ({count:,})" for kind, count in (told.get("kinds") or {}).items()], 8
        )
        text = f"{name} is a log of tritonparse: {counted(records, 'event')}{whole}: {has}."
        yield Fact("run", "notice" if found else "good", text, ONLY_TRITON, view="kernels")
    else:
        text = f"{name} is a TORCH_TRACE log: {counted(records, 'record')}{whole}."
        yield Fact("run", "notice" if found else "good", text, NOT_TOLD, view="source")
    ranks = [rank for rank in told.get("ranks", ()) if rank >= 0]
    if len(ranks) > 1:
        text = (
            f"{counted(len(ranks), 'rank')} wrote into this file "
            f"({listed(map(str, ranks), 8)}), each with its own [0/0]."
        )
        yield Fact(
            "run", "notice", text, f"They are taken apart and compared by: fx-explorer ranks {name}"
        )
    if found:
        lines = list(dict.fromkeys(f"{line:,}" for line in told.get("damaged_lines", ())))
        where = (
            f"First in {'line' if len(lines) == 1 else 'lines'} {listed(lines)}." if lines else ""
        )
        yield Fact(
            "run", "notice", f"Not all of it is as torch wrote it: {'; '.join(found)}.", where
        )
    unknown = told.get("unknown") or {}
    if unknown:
        kinds = listed([f"{kind} ({count:,})" for kind, count in sorted(unknown.items())], 6)
        yield Fact("run", "notice", f"Not known here, and kept as texts: {kinds}.", view="source")
