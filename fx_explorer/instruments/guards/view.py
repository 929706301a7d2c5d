"""This module makes view 5: the checks before compiled code is used again, grouped by the checked
value; and the answers for other inputs.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, source_document
from fx_explorer.analysis.function_versions import functions_of_versions
from fx_explorer.analysis.whole_session import not_decoded, why_not_in_text
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.guards.guard_tree import (
    CHANCE_WORDS,
    ExplainedCheck,
    GuardGroup,
    format_check_cost,
    guard_groups,
    most_expensive,
    verdicts,
)
from fx_explorer.instruments.guards.kinds import (
    KIND_IN_WORDS,
    NO_GUARDS_OF_PRECOMPILE,
    guard_kinds,
    is_of_saved_code,
    is_precompiled,
    saved_guards,
)
from fx_explorer.instruments.recompiles.guard_changes import change_of
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import (
    asked_count,
    check_count,
    compilation_names,
    filtered,
    guards_without_tree,
)

COLUMNS = (
    TableColumn("frame", "annotation", priority=4),
    TableColumn("guards on", "strong", min_width=18, max_width=44),
    TableColumn("what must stay true", min_width=30, max_width=70),
    TableColumn("fails when", "strong", min_width=8, priority=2),
    TableColumn("cost", "muted", is_number=True, min_width=8, priority=3, total=format_check_cost),
    TableColumn("asked for by", "link", min_width=14, priority=1),
    TableColumn("kind", "muted", min_width=14, priority=5),
)

QUESTIONS_SHOWN = 5

_NAMELESS: dict[str, str] = {"shapes": "sizes", "state": "setting", "library": "alias"}
"""Kind of check that concerns no single value → its name in the table."""


def guards_table(reader: SessionReader, search: str = "") -> ViewTable:
    """Make the table. Only checks whose description has all words of ``search`` are shown."""
    documents = _documents(reader)
    rows = [*_question_rows(reader, documents), *_check_rows(reader, documents, search)]
    rows += _guard_rows(reader, documents, search)
    if search:
        empty = f"No check has all of these words: {search}"
    else:
        empty = _why_empty(reader)
    columns = _columns(reader)
    return ViewTable(
        shows="What must stay true for the compiled code to be reused. When one fails, torch "
        "recompiles.",
        notice=_notice(reader, search),
        origin="torch's guard manager, one row per check",
        columns=columns,
        rows=rows,
        empty=empty,
        searched=functools.partial(guards_table, reader),
        versions=functions_of_versions(reader),
    )


def _columns(reader: SessionReader) -> tuple[TableColumn, ...]:
    """Return the columns of the table. With several compilations the sum of the costs says that it
    is over all of them, since a call checks the guards of one.
    """
    checked = {check.compilation for check in reader.rows(model.GuardCheck)}
    if len(checked) < 2:
        return COLUMNS
    of_all = f"for all {len(checked):,} compilations once"
    columns = []
    for column in COLUMNS:
        if column.total:
            column = replace(column, total=lambda cost: f"{format_check_cost(cost)} {of_all}")
        columns.append(column)
    return tuple(columns)


def _documents(reader: SessionReader) -> dict[str, Document]:
    """Return the document of each file, looked up once: a model has thousands of guards and few
    files.
    """
    return {file.path: source_document(file) for file in reader.rows(model.SourceFile) if file.text}


def _place(documents: dict[str, Document], file: str, line: int) -> Place | None:
    document = documents.get(file)
    if document:
        return Place(document, max(0, line - 1))
    return None


def _where(file: str, line: int) -> str:
    return in_file(file, line) if file else ""


# checks


def _check_rows(
    reader: SessionReader, documents: dict[str, Document], search: str
) -> Iterator[TableRow]:
    for compilation, name in compilation_names(reader).items():
        # ``[0/1]`` is of the compilation: no check has it in its description.
        words = " ".join(
            word for word in search.split() if "/" not in word or word not in f"[{name}]"
        )
        for group in guard_groups(reader, compilation, words):
            yield _group_row(name, group)
            yield from (_check_row(check, documents) for check in group.checks)


def _group_row(owner: str, group: GuardGroup) -> TableRow:
    inputs = sum(check.chance == "inputs" for check in group.checks)
    can = f"{inputs} inputs" if inputs else ""
    cells = (
        f"[{owner}]",
        f"▾ {group.title}",
        counted(len(group.checks), "check"),
        can,
        _group_cost(group),
        "",
        "",
    )
    return TableRow(cells, detail=lambda: Detail(_group_text(group)), is_heading=True)


def _group_cost(group: GuardGroup) -> str:
    if any(check.check.cost_ns >= 0 for check in group.checks):
        return format_check_cost(group.cost_ns)
    return "not measured"


def _group_text(group: GuardGroup) -> str:
    """Say how many of the group's checks can fail, and how."""
    chances = Counter(check.chance for check in group.checks)
    lines = [f"{counted(len(group.checks), 'check')} on {group.title}"]
    for chance, words in CHANCE_WORDS.items():
        count = chances[chance]
        if count:
            lines.append(f"  {count:>4}  {words}")
    return "\n".join(lines)


def _check_row(explained_check: ExplainedCheck, documents: dict[str, Document]) -> TableRow:
    check = explained_check.check
    cells = (
        f"[{explained_check.compilation}]",
        f"  {explained_check.name or _NAMELESS.get(check.origin, '')}",
        explained_check.asks,
        explained_check.chance,
        format_check_cost(check.cost_ns),
        _where(check.file, check.line),
        check.kind,
    )
    values = {"cost": check.cost_ns} if check.cost_ns >= 0 else {}
    place = _place(documents, check.file, check.line)
    return TableRow(
        cells,
        place,
        lambda: Detail(_check_text(explained_check)),
        values=values,
        part=1,
        version=explained_check.compilation,
    )


def _check_text(explained_check: ExplainedCheck) -> str:
    """Describe a check in several lines: its condition, whether it may fail, the user's line behind
    it, its cost, and torch's code for it.
    """
    check = explained_check.check
    if check.file:
        asked = f"asked for by {check.file}:{check.line}"
    else:
        asked = "no line of yours is known to require it"
    if check.value:
        example = f", which is {check.value} in the example inputs"
    else:
        example = ""
    if check.cost_ns == 0 and not check.source:
        cost = "0 ns of its own: checked together with the one above"
    else:
        cost = format_check_cost(check.cost_ns)
    lines = [
        f"{explained_check.name or check.kind}: {explained_check.asks}{example}",
        f"{CHANCE_WORDS[explained_check.chance]}: {explained_check.why}",
        asked,
        f"cost: {cost}",
        "",
        f"torch checks, as {explained_check.guard_kind or check.kind}",
        f"  {check.code}",
    ]
    if check.note:
        lines.append(f"  # {check.note}")
    return "\n".join(lines)


# what other inputs were told


def _question_rows(reader: SessionReader, documents: dict[str, Document]) -> Iterator[TableRow]:
    names = compilation_names(reader)
    for verdict in verdicts(reader)[:QUESTIONS_SHOWN]:
        inputs = verdict.inputs or "twice the batch"
        for answer in verdict.answers:
            if answer.answer != "not_asked":
                yield _answer_row(inputs, answer, names.get(answer.compilation, ""), documents)


def _answer_row(
    inputs: str, answer: model.GuardAnswer, owner: str, documents: dict[str, Document]
) -> TableRow:
    if answer.answer == "accepted":
        words, mark, kind = "would be used again", "✓ fits", "good"
    else:
        words = f"would recompile: {change_of(answer.reason).words}"
        mark, kind = "✗ fails", "bad"
    cells = (
        f"[{owner}]",
        f"? {inputs}",
        words,
        mark,
        "",
        _where(answer.file, answer.line),
        "",
    )
    text = f"With {inputs}, [{owner}] {words}."
    if answer.reason:
        text += f"\n\ntorch's own words\n  {answer.reason}"
    return TableRow(
        cells,
        _place(documents, answer.file, answer.line),
        lambda: Detail(text),
        kind=kind,
    )


# compilations whose checks are not known


def _guard_rows(
    reader: SessionReader, documents: dict[str, Document], search: str
) -> list[TableRow]:
    """Return the guards of compilations whose tree of checks is not known: those of a log, or of a
    torch whose tree cannot be walked.
    """
    numbers = guards_without_tree(reader)
    if not numbers:
        return []
    names = compilation_names(reader)
    rows = []
    for guard in reader.by_ids(model.Guard, numbers):
        row = _guard_row(guard, names.get(guard.compilation, ""), documents)
        text = " ".join((*row.cells, _guard_text(guard))).lower()
        if all(word in text for word in search.lower().split()):
            rows.append(row)
    return rows


def _guard_row(guard: model.Guard, owner: str, documents: dict[str, Document]) -> TableRow:
    meaning = KIND_IN_WORDS.get(guard.kind) or first_line(guard.code or guard.verbose)
    where = _where(guard.file, guard.line)
    cells = (
        f"[{owner}]",
        guard.source or "everything",
        meaning,
        "",
        "not measured",
        where,
        guard.kind,
    )
    return TableRow(
        cells, _place(documents, guard.file, guard.line), lambda: Detail(_guard_text(guard))
    )


def _guard_text(guard: model.Guard) -> str:
    if guard.file:
        where = f"asked for by {guard.file}:{guard.line}"
    else:
        where = "no line of yours is known to require it"
    meaning = KIND_IN_WORDS.get(guard.kind, "a kind of guard without an explanation")
    texts = [
        f"{guard.kind} on {guard.source or 'everything'}: {meaning}",
        where,
        "",
        "torch checks",
        f"  {guard.code}",
    ]
    if guard.verbose and guard.verbose != guard.code:
        texts += [f"  {guard.verbose}"]
    return "\n".join(texts)


# words


def _notice(reader: SessionReader, search: str) -> str:
    guards, checks, dropped = check_count(reader), reader.count(model.GuardCheck), _dropped(reader)
    if not guards:
        return dropped
    if search:
        return f"Only checks with: {search}. v f changes the search; an empty one shows all."
    if not checks and not dropped:
        frequent = ", ".join(
            f"{kind.count} × {kind.description or kind.kind}" for kind in guard_kinds(reader)[:2]
        )
        return f"{counted(guards, 'guard')}; the most frequent: {frequent}."
    slowest = _slowest(reader)
    owner = slowest.compilation if slowest else None
    groups = guard_groups(reader, owner)
    expensive = most_expensive(check for group in groups for check in group.checks)
    made = counted(guards, "guard")
    asked = asked_count(reader)
    if asked != guards:
        made = f"{counted(guards, 'check')} for the {counted(asked, 'guard')} that Dynamo made"
    made += _tree_cost(reader, slowest)
    sentences = [f"{made}.", dropped]
    if expensive:
        sentences.append(f"Most expensive: {expensive}.")
    return " ".join(filter(None, sentences))


def _dropped(reader: SessionReader) -> str:
    """Return a sentence on guards that filters dropped, and that are no longer checked."""
    sentences = []
    for row in filtered(reader):
        if not is_of_saved_code(row.filter):
            of_guards = f"{row.dropped:,} of {row.guards:,}"
            sentences.append(f"{row.filter} dropped {of_guards} that Dynamo made.")
    of_saved_code = saved_guards(reader)
    sentences += [f"{guards.description} {guards.unchecked}".rstrip() for guards in of_saved_code]
    return " ".join(sentences)


def _slowest(reader: SessionReader) -> model.Metric | None:
    """Return the time of the checks of the most expensive compilation; None where none was
    measured.
    """
    metrics = reader.rows(model.Metric, name="guard_check_ns")
    slowest = max(metrics, key=_nanoseconds, default=None)
    if slowest and _nanoseconds(slowest) > 0:
        return slowest
    return None


def _nanoseconds(metric: model.Metric) -> float:
    return float(json.loads(metric.value))


def _tree_cost(reader: SessionReader, slowest: model.Metric | None) -> str:
    """Return a sentence on the time that one call spends on the checks of a compilation."""
    if slowest is None:
        return ""
    name = compilation_names(reader).get(slowest.compilation, "")
    several = reader.count(model.Metric, name="guard_check_ns") > 1
    up_to, where = ("up to ", f" in [{name}]") if several else ("", "")
    cost = format_check_cost(_nanoseconds(slowest))
    if not any(check.cost_ns >= 0 for check in reader.rows(model.GuardCheck)):
        return f"; torch measured {up_to}{cost} for the first run of these checks{where}"
    return f", {up_to}{cost} a call{where}"


def _why_empty(reader: SessionReader) -> str:
    if why := why_not_in_text(reader, "guards"):
        return why
    if why := not_decoded(reader):
        return why
    if reader.meta("outcome") is None:
        return "None so far: guards are made when Dynamo has finished a graph."
    if filtered(reader):
        return "No guard is left: the compiled code runs whatever changes."
    if is_precompiled(reader):
        return NO_GUARDS_OF_PRECOMPILE
    if not reader.count(model.Compilation):
        return "No guards: nothing was compiled."
    return (
        "This session has no guards: the compilation failed before they were made, or they were "
        "removed from the session. Capture the program to see them."
    )
