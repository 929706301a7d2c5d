"""View v e: what compiled code changes after its graphs have run, and at which of your lines."""

from __future__ import annotations

import re
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_source
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, listed
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

COLUMNS = (
    TableColumn("changed", "strong", min_width=12, max_width=40, keeps="end"),
    TableColumn("how", min_width=14, max_width=40),
    TableColumn("type", "type", min_width=8, priority=3),
    TableColumn("your line", "link", min_width=12, keeps="end", priority=1),
    TableColumn("frame", "annotation", priority=2),
    TableColumn("function", min_width=10, max_width=40, keeps="end", priority=4),
)

NONE = (
    "Compiled code changes nothing outside of its graphs: no attribute, list, dict, set or "
    "closure. In-place changes of tensors in a graph are operations of the graph."
)

NOTHING_COMPILED = "Nothing was compiled, so no compiled code changes anything."

NOT_IN_LOG = (
    "A log lists the side effects after a graph only as the text “Side effects”, if torch wrote "
    "one."
)

_GLOBAL = re.compile(r"^G\['(\w+)'\]")
"""Matches the beginning of a source that is a global variable, as torch writes it."""

_OF_A_CELL = ("cell_contents",)
"""Attribute of a variable of a closure, in which Python keeps its value."""

_CONTENTS = {
    "list": ("its items are replaced", "replaces its items"),
    "dict": ("its items are updated", "updates its items"),
    "set": ("its items are updated", "updates its items"),
    "collections.deque": ("its items are replaced", "replaces its items"),
}
"""Type → how Dynamo replays a change of the contents (``codegen_update_mutated``): for the column,
and for the sentence "compiled code …".
"""

_OTHER_CONTENTS = ("its contents are changed", "changes its contents")


def side_effects(reader: SessionReader) -> list[tuple[model.SideEffect, model.Compilation]]:
    """Return what the compilations in use change after their graphs, in the order of these."""
    used = {compilation.id: compilation for compilation in variants_in_use(reader)}
    rows = reader.rows(model.SideEffect)
    return [(row, used[row.compilation]) for row in rows if row.compilation in used]


def changed_name(row: model.SideEffect) -> str:
    """Return what is changed in the user's words: ``self.count, self.last``, ``SEEN``."""
    name = _GLOBAL.sub(r"\1", row.changed)
    if not row.names or row.names == _OF_A_CELL:
        return name
    return ", ".join(f"{name}.{attribute}" for attribute in row.names)


def describe_change(row: model.SideEffect) -> str:
    """Return how Dynamo replays the change."""
    if row.names == _OF_A_CELL:
        return "it gets another value"
    if row.names:
        return "set" if len(row.names) == 1 else f"{counted(len(row.names), 'attribute')} set"
    return _CONTENTS.get(row.type_name, _OTHER_CONTENTS)[0]


def _replay(row: model.SideEffect) -> str:
    """Return what compiled code does: ``sets it``, ``replaces its items``."""
    if row.names == _OF_A_CELL:
        return "gives it another value"
    if row.names:
        return "sets it" if len(row.names) == 1 else "sets them"
    return _CONTENTS.get(row.type_name, _OTHER_CONTENTS)[1]


def side_effects_table(reader: SessionReader) -> ViewTable:
    effects = side_effects(reader)
    return ViewTable(
        shows="Side effects of compiled code, replayed after its graphs have run.",
        notice="",
        origin="Dynamo's own record of side effects, from when it wrote the code around the graph",
        columns=COLUMNS,
        rows=[_row(reader, effect, compilation) for effect, compilation in effects],
        empty=_why_empty(reader),
        answer=_answer(effects),
    )


def _why_empty(reader: SessionReader) -> str:
    if is_log(reader):
        return NOT_IN_LOG
    return NONE if reader.rows(model.Compilation) else NOTHING_COMPILED


def _answer(effects: list[tuple[model.SideEffect, model.Compilation]]) -> str:
    names = list(dict.fromkeys(changed_name(effect) for effect, _ in effects))
    if not names:
        return ""
    return f"After its graphs, compiled code changes {listed(names, 6)}."


def _row(
    reader: SessionReader, effect: model.SideEffect, compilation: model.Compilation
) -> TableRow:
    line = place = None
    if effect.file:
        path = reader.get(model.SourceFile, effect.file).path
        line = in_file(path, effect.line)
        place = place_of_source(reader, effect.file, effect.line)
    cells = (
        changed_name(effect),
        describe_change(effect),
        effect.type_name,
        line or "torch does not say",
        f"[{compilation.name}]",
        compilation.function,
    )
    return TableRow(cells, place, partial(_detail, effect, line), version=compilation.name)


def _detail(effect: model.SideEffect, line: str | None) -> Detail:
    name = changed_name(effect)
    where = f" at {line}" if line else ""
    return Detail(
        f"Your function changes {name}{where}. Dynamo stores the change while it traces; compiled "
        f"code {_replay(effect)} once, after the graph has run."
    )


def side_effect_json(reader: SessionReader) -> list[dict[str, object]]:
    """Return one object for each side effect."""
    rows: list[dict[str, object]] = []
    for effect, compilation in side_effects(reader):
        file = reader.get(model.SourceFile, effect.file).path if effect.file else ""
        rows.append(
            {
                "compilation": compilation.name,
                "function": compilation.function,
                "changed": changed_name(effect),
                "attributes": list(effect.names),
                "type": effect.type_name,
                "how": describe_change(effect),
                "source": effect.changed,
                "file": file,
                "line": effect.line or None,
            }
        )
    return rows
