"""A module runs in eager mode although it is part of what the program gives to torch.compile:
validation calls the model and not what torch.compile returned, or a method of the wrapper's calls
the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.findings.compile_edits import COPY_BEFORE, compiling_in_place
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.trials import TrialWorker, recapture, straight_through

MOST_TRIALS = 3
"""Number of modules for which another place of torch.compile is tried."""


@dataclass(frozen=True, slots=True)
class EagerCall:
    """A line that calls a module in eager mode."""

    class_name: str
    path: str
    """Its path from what is given to torch.compile; empty where that is the module itself."""
    has_forward_of_torchs: bool
    """Whether ``module.compile()`` compiles nothing of it, as its forward is code of torch.nn."""
    file: str
    line: int
    count: int
    given_file: str
    given_line: int
    """The line of torch.compile."""


@dataclass(frozen=True, slots=True)
class EagerModule:
    """A module with the lines that call it in eager mode, and what a trial showed."""

    calls: tuple[EagerCall, ...]
    remedy: Remedy

    @property
    def count(self) -> int:
        return sum(call.count for call in self.calls)


async def find_eager_calls(
    request: CaptureRequest, edits: CompileEdits, worker: TrialWorker
) -> tuple[EagerModule, ...]:
    """Run the program, and look which of its compiled modules run in eager mode too; compile each
    of these in place, and look again.
    """
    settings = {**request.settings, "compile.backend": "eager"}
    plain = straight_through(request, settings=settings, record_eager_calls=True)
    modules = []
    calls_by_module = await _calls(plain, worker)
    for number, calls in enumerate(calls_by_module):
        change = edits.in_place(calls[0])
        remedy = Remedy(_what_to_do(calls[0]))
        if number < MOST_TRIALS and change:
            overlay = {**request.overlay, **change.get("overlay", {})}
            changed = straight_through(plain, **{**change, "overlay": overlay})
            left = await _calls(changed, worker)
            remedy = _tried(remedy, calls, left)
        modules.append(EagerModule(calls, remedy))
    return tuple(modules)


class CompileEdits:
    """The edits of a program's calls of torch.compile that compile a module in place."""

    def __init__(self, texts: dict[str, str]) -> None:
        """``texts`` has the text of each file of the user's by path."""
        self._texts = texts

    @classmethod
    def of(cls, reader: SessionReader) -> CompileEdits:
        lines = SourceLines(reader)
        files = reader.rows(model.SourceFile)
        return cls({file.path: lines.text(file.path) for file in files if file.is_user})

    def in_place(self, call: EagerCall) -> dict[str, Any]:
        """Return the fields of a request that compile the module in place; empty where there is no
        way.
        """
        if call.path:
            return {"compile_modules": (call.path,)}
        text = self._texts.get(call.given_file, "")
        edited = compiling_in_place(text, call.given_line, by_forward=call.has_forward_of_torchs)
        return {"overlay": {call.given_file: edited}} if edited else {}


async def _calls(request: CaptureRequest, worker: TrialWorker) -> list[tuple[EagerCall, ...]]:
    return (await recapture(request, worker, eager_calls)).found


def eager_calls(reader: SessionReader) -> list[tuple[EagerCall, ...]]:
    """Return the calls of each module, those of the module that is called most often first."""
    by_module: dict[tuple[str, str], list[EagerCall]] = {}
    for entry in reader.meta("eager_calls") or ():
        call = EagerCall(*entry)
        by_module.setdefault((call.class_name, call.path), []).append(call)
    modules = [tuple(calls) for calls in by_module.values()]
    return sorted(modules, key=lambda calls: -sum(call.count for call in calls))


def _role(call: EagerCall) -> str:
    where = in_file(call.given_file, call.given_line)
    if call.path:
        return f"part of the object given to torch.compile at {where}"
    return f"given to torch.compile at {where}"


def _what_to_do(call: EagerCall) -> str:
    where = in_file(call.given_file, call.given_line)
    name = call.path.removeprefix("G.").removeprefix("L.") or "module"
    copies = ""
    if call.has_forward_of_torchs:
        code = f"{name}.forward = torch.compile({name}.forward)"
        copies = f" {COPY_BEFORE}"
    else:
        code = f"{name}.compile()"
    if call.path:
        return (
            f"Compile the module itself, {code}, instead of the object given to torch.compile at "
            f"{where}: the code around it then runs in eager mode.{copies}"
        )
    return (
        f"Compile it in place at {where}, {code}: then every call of the module is compiled. Or "
        f"call the object that torch.compile returned there.{copies}"
    )


def _tried(
    remedy: Remedy, calls: Sequence[EagerCall], left: Sequence[Sequence[EagerCall]]
) -> Remedy:
    """Return the remedy with the number of calls in eager mode that were left with it."""
    before = sum(call.count for call in calls)
    after = 0
    for module in left:
        if module[0].class_name == calls[0].class_name:
            after += sum(call.count for call in module)
    result = f"{counted(after, 'call')} in eager mode instead of {before:,}."
    return Remedy(remedy.text, state="tried", result=result, has_helped=after < before)


def eager_call_findings(modules: Sequence[EagerModule]) -> Iterator[Finding]:
    """Yield a finding for each module that runs in eager mode too."""
    for module in modules:
        first = module.calls[0]
        evidence = [
            f"{in_file(call.file, call.line)}: {counted(call.count, 'call')} in eager mode."
            for call in module.calls
        ]
        yield Finding(
            kind="eager calls",
            text=(
                f"{first.class_name}, {_role(first)}, also runs in eager mode: "
                f"{counted(module.count, 'call')}."
            ),
            urgency="minor",
            severity="notice",
            topic="graphs",
            view="source",
            evidence=tuple(evidence),
            explanation=(
                "torch.compile(module) does not change the module: only calls of the object it "
                "returns are compiled."
            ),
            remedies=(module.remedy,),
            count=module.count,
        )
