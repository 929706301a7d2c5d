"""torch.compile was called, and what it returned was not: it is bound to a name that nothing calls,
or thrown away. And programs of which nothing was compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.whole_session import (
    compiled_without_dynamo,
    is_debug_directory,
    is_log,
    not_decoded,
    not_in_text,
)
from fx_explorer.findings.compile_edits import (
    COPY_BEFORE,
    compiling_in_place,
    compiling_its_forward,
)
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

LAZY = "torch.compile only returns a new function; calling that function compiles it."


def find_never_called(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each call of torch.compile whose result the program never calls."""
    compiled = reader.count(model.Graph) > 0
    for name, file, line, unused in _entries(reader):
        is_in_place = unused.startswith(IN_PLACE)
        if is_in_place and (compiled or reader.count(model.GraphBreak)):
            continue  # a session does not tell of which module a graph or a break is
        yield Finding(
            kind="never called",
            text=_sentence(name, in_file(file, line), unused),
            urgency="minor" if compiled else "not compiled",
            severity="notice" if compiled else "problem",
            topic="graphs",
            place=place_of_path(reader, file, line),
            view="source",
            explanation=_explanation(unused),
            remedies=tuple(_what_to_do(name, unused, _Edits(reader, file, line))),
        )


class _Edits:
    """The edits of a line that calls torch.compile, as changes of a trial."""

    def __init__(self, reader: SessionReader, file: str, line: int) -> None:
        self._text = SourceLines(reader).text(file)
        self._file = file
        self._line = line

    def to_its_forward(self) -> dict[str, object]:
        return self._changes(compiling_its_forward(self._text, self._line))

    def in_place(self) -> dict[str, object]:
        return self._changes(compiling_in_place(self._text, self._line))

    def _changes(self, edited: str | None) -> dict[str, object]:
        return {"overlay": {self._file: edited}} if edited else {}


IN_PLACE = "compiled in place"
"""Beginning of the reason where a module's own ``compile()`` was called."""

OF_ORIGINAL = "a method of the original module"


def _sentence(name: str, where: str, unused: str) -> str:
    if unused.startswith(IN_PLACE):
        past = unused.removeprefix(IN_PLACE)
        return f"{name}.compile() was called at {where}, but nothing was compiled{past}."
    return f"{name} was given to torch.compile at {where}, {unused}."


def _explanation(unused: str) -> str:
    if unused.startswith(IN_PLACE):
        return (
            "module.compile() compiles the call of the module, module(x). A call of its forward, "
            "or of a method that calls forward, bypasses it. Also, Dynamo skips the code of "
            "torch.nn: a torch.nn.Sequential that is compiled in place stays uncompiled."
        )
    if OF_ORIGINAL in unused:
        return (
            "torch.compile(module) returns a wrapper whose call is compiled. Its other methods "
            "are the original module's, and code that they call is not compiled."
        )
    return LAZY


_OF_FORWARD = (
    "Compile its forward, which works for every kind of call: model.forward = "
    f"torch.compile(model.forward). This also works if the call is in a package. {COPY_BEFORE}"
)


def _what_to_do(name: str, unused: str, edits: _Edits) -> Iterator[Remedy]:
    """Yield the ways to have the compiled code run."""
    if unused.startswith(IN_PLACE):
        if ".forward" in unused:
            yield Remedy("Call the module instead of its forward: self(…) for self.forward(…).")
        yield Remedy(_OF_FORWARD, changes=edits.to_its_forward())
    elif OF_ORIGINAL in unused:
        yield Remedy(
            "Compile in place, module.compile(): this works if the method calls the module, "
            "self(…).",
            changes=edits.in_place(),
        )
        yield Remedy(_OF_FORWARD)
    else:
        yield Remedy(_call_it(name, unused))


def _call_it(name: str, unused: str) -> str:
    if "local name self" in unused:
        return (
            "Call self.compile() there: it compiles the module in place. self = "
            "torch.compile(self) only rebinds the local name."
        )
    parameter = _REBOUND.search(unused)
    if parameter:
        name = parameter["name"]
        return (
            f"Return {name} there, and use the returned object: {name} = torch.compile({name}) "
            f"only rebinds the local name; the object that {parameter['function']} was called "
            f"with is unchanged. Or, for a module, {name}.compile(): it compiles in place."
        )
    return (
        f"Call the object that torch.compile returned instead of {name}, or compile a module in "
        "place with module.compile()."
    )


_REBOUND = re.compile(
    r"the local name (?P<name>\w{1,200}), a parameter of (?P<function>\w{1,200}), and never called"
)
"""Matches the reason where a function binds the result to its own parameter."""


def _entries(reader: SessionReader) -> Iterator[tuple[str, str, int, str]]:
    """Yield (name, file, line, why it is never called)."""
    yield from reader.meta("never_called") or ()


def find_nothing_compiled(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for a program that ran to its end without a graph, unless the reason is a
    finding of its own.
    """
    recorded = reader.meta("outcome")
    if recorded is None or is_log(reader) or reader.count(model.Graph):
        return
    if is_debug_directory(reader) or not_decoded(reader) or "graphs" in not_in_text(reader):
        return
    has_reason = (
        reader.count(model.GraphBreak)
        or reader.count(model.Failure)
        or compiled_without_dynamo(reader)
        or any(True for _ in _entries(reader))
    )
    outcome = model.Outcome.from_json(recorded)
    if has_reason or not outcome.went_well:
        return
    yield Finding(
        kind="nothing compiled",
        text="Nothing of this program was compiled.",
        urgency="not compiled",
        topic="graphs",
        view="graphs",
        evidence=tuple(_evidence(reader, outcome)),
    )


def _evidence(reader: SessionReader, outcome: model.Outcome) -> Iterator[str]:
    if outcome.message:
        yield outcome.message
    for fallback in distinct_fallbacks(reader):
        if not fallback.has_nothing_to_compile:
            yield f"{plain_function(fallback.function)}: {fallback.description}"
