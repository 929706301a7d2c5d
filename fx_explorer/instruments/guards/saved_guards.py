"""What code that is compiled ahead and saved does not check: a file cannot have guards on globals
or on the identity of objects.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.naming import function_of, plain_name
from fx_explorer.analysis.words import counted, listed
from fx_explorer.model.rows.observation import GUARDS_IN_FILE
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import filtered

_FILTER_OF_SAVED_CODE = "aot_compile_fullgraph."
"""The function in torch/_dynamo/aot_compile.py that the filter is made in."""

_OF_TORCH = ("G['torch']", "G['__import_torch", "G['__builtins", "G['_global_")
"""How sources begin that are torch's own or Python's, which programs leave alone."""

NAMES_SHOWN = 5

NO_GUARDS_OF_PRECOMPILE = (
    "torch.compiler.precompile traces with make_fx, so there are no guards. What torch "
    "itself tells of a capture "
    "(PrecompileSummary) it gives to the program only."
)

OF_TORCH_ALONE = "All of them look at functions and modules of torch's own."


@dataclass(frozen=True, slots=True)
class SavedGuards:
    """The guards of one function that was compiled to be saved."""

    function: str
    guards: int
    """Guards that Dynamo asked for."""
    dropped: tuple[tuple[str, str], ...]
    """Kind and source of those that the saved code does not check."""

    @property
    def in_words(self) -> str:
        """Return how many of the guards the saved code is without."""
        asked_for = (
            f"{len(self.dropped):,} of the {counted(self.guards, 'guard')} that Dynamo asked for"
        )
        return f"The saved code of {self.function} is without {asked_for}: they cannot be saved."

    @property
    def unchecked(self) -> str:
        """Say which of the program's own names the saved code does not check; empty for none."""
        names = dict.fromkeys(
            plain_name(source)
            for kind, source in self.dropped
            if kind != "MODULE_MATCH" and not source.startswith(_OF_TORCH)
        )
        return f"It does not check {listed(list(names), NAMES_SHOWN)}." if names else ""


def is_of_saved_code(filter_name: str) -> bool:
    """Return whether this is torch's own filter, which drops what ``aot_compile`` cannot save."""
    return filter_name.startswith(_FILTER_OF_SAVED_CODE)


def is_precompiled(reader: SessionReader) -> bool:
    """Return whether ``torch.compiler.precompile`` compiled something."""
    return any(row.name.startswith("precompile/") for row in reader.rows(model.Compilation))


def saved_guards(reader: SessionReader) -> list[SavedGuards]:
    """Return the functions whose saved code lacks guards, in the order in which they were compiled."""
    dropped = {**dict(_of_aot_compile(reader)), **dict(_of_precompile(reader))}
    return [
        SavedGuards(function_of(row), *dropped[row.id])
        for row in reader.rows(model.Compilation)
        if row.id in dropped and dropped[row.id][1]
    ]


_Dropped = tuple[int, tuple[tuple[str, str], ...]]


def _of_precompile(reader: SessionReader) -> Iterator[tuple[int, _Dropped]]:
    """Yield what ``Precompile.save`` left out, by the id of the compilation."""
    for metric in reader.rows(model.Metric, name=GUARDS_IN_FILE):
        in_file = json.loads(metric.value)
        dropped = tuple((str(kind), str(source)) for kind, source in in_file["dropped"])
        yield metric.compilation, (int(in_file["guards"]), dropped)


def _of_aot_compile(reader: SessionReader) -> Iterator[tuple[int, _Dropped]]:
    """Yield what torch's ``aot_compile`` left out, by the id of the compilation."""
    filters = [one.filter for one in filtered(reader) if is_of_saved_code(one.filter)]
    for name in filters:
        by_compilation: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for guard in reader.rows(model.Guard, dropped_by=name):
            by_compilation[guard.compilation].append((guard.kind, guard.source))
        for compilation, dropped in by_compilation.items():
            yield compilation, (reader.count(model.Guard, compilation=compilation), tuple(dropped))
