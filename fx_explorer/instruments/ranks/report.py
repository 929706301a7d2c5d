"""This module writes the comparison of ranks as text for people, as markdown for an issue, and as
JSON (``fx-explorer/ranks/1``, to which fields are only added). The text has a chart of when each
rank compiled, on one axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.instruments.ranks.compared import ComparedRanks
from fx_explorer.instruments.ranks.divergence import STATUS_WORDS, describe_cache
from fx_explorer.instruments.ranks.groups import RankGroup, agreement, known_aspects
from fx_explorer.instruments.ranks.rank_finding import RankFinding, Wait, rank_numbers, waits
from fx_explorer.instruments.ranks.sentences import (
    agreed,
    as_sentence,
    describe_group,
    first_of_group,
    first_sentence,
    further,
    gaps,
    group_figures,
    headline,
    list_unused_files,
)
from fx_explorer.instruments.ranks.summary import CompilationSummary, RankSummary, began_together
from fx_explorer.output.formats import Block
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import LEAST_PROSE
from fx_explorer.session.file_names import in_file

MOST_GROUPS = 20

MOST_WAITS = 3

MOST_COMPILATIONS = 200


def ranks_text(ranks: ComparedRanks, width: int = 100) -> Iterator[Block]:
    """Yield lines and a table, the answer first; the chart in ``width`` cells."""
    yield headline(ranks)
    if sentence := first_sentence(ranks):
        yield sentence
    rest = list(further(ranks.findings, ranks.first))
    title = "Then:" if ranks.first else "Noted, and no divergence:"
    yield from _section(title, rest)
    if ranks.groups:
        yield from ("", "Ranks that are alike:", _groups(ranks))
    yield from _section("Who waits:", wait_sentences(ranks))
    chart = time_line(ranks.groups, max(20, width - 12))
    if chart:
        yield from ("", "When each compiled:", *(f"  {line}" for line in chart_lines(chart)))
    same, other = agreed(ranks)
    if len(ranks.summaries) > 1:
        in_one_line = [", ".join(same)] if same else []
        yield from _section("They agree in:", in_one_line)
        yield from _section("They differ in (ranks that agree | others):", other)
    yield from _section("To know:", gaps(ranks))
    yield from _section("Files that are not compared:", list_unused_files(ranks))


def ranks_markdown(ranks: ComparedRanks) -> Iterator[str]:
    """Yield the lines of the same answer for an issue or a pull request."""
    yield f"**{_escaped(headline(ranks))}**"
    if sentence := first_sentence(ranks):
        yield from ("", _escaped(sentence))
    title = "Then" if ranks.first else "Noted, and no divergence"
    yield from _list(title, list(further(ranks.findings, ranks.first)))
    yield from ("", "| ranks | compilations | |", "| --- | --- | --- |")
    for group in ranks.groups[:MOST_GROUPS]:
        cells = rank_numbers(group.ranks), group_figures(group), describe_group(ranks, group)
        yield f"| {' | '.join(_escaped(cell).replace('|', chr(92) + '|') for cell in cells)} |"
    yield from _list("Who waits", wait_sentences(ranks))
    chart = time_line(ranks.groups, 80)
    if chart:
        yield from ("", "```", *chart_lines(chart), "```")
    yield from _list("To know", gaps(ranks))
    yield from _list("Files that are not compared", list_unused_files(ranks))


def group_text(
    ranks: ComparedRanks, group: RankGroup, rank: RankSummary, width: int
) -> Iterator[str]:
    """Yield the lines that describe a group. ``rank`` is the member whose compilations are
    listed.
    """
    of_group = [finding for finding in ranks.findings if finding.ranks == group.ranks]
    if rank.unknown_end:
        yield f"How rank {rank.rank} ended is unknown: {rank.unknown_end}."
    if of_group:
        yield "Differences from the first group, in the order in which they occurred:"
        yield from (f"  {line}" for line in further(of_group, None))
        yield ""
    chart = time_line(ranks.groups, max(20, width - 12))
    if chart:
        yield from ("When each compiled:", *(f"  {line}" for line in chart_lines(chart)), "")
    parts = wait_sentences(ranks, group)
    if parts:
        yield from ("Who waits:", *(f"  {line}" for line in parts), "")
    yield f"What rank {rank.rank} compiled ({rank.path}):"
    for compilation in rank.compilations[:MOST_COMPILATIONS]:
        if compilation.cache:
            from_caches = f", {', '.join(map(describe_cache, compilation.cache))}"
        else:
            from_caches = ""
        why = compilation.error.partition(" Explanation: ")[
            0
        ]  # the rest of torch's report is for a screen of its own
        error = f": {why}" if why else ""
        if compilation.file:
            place = in_file(compilation.file, compilation.line)
            where = f"{plain_function(compilation.function)} at {place}"
        else:
            where = ""
        yield (
            f"  [{compilation.name}] {where}  {seconds(compilation.duration_s)}  "
            f"{STATUS_WORDS.get(compilation.status, compilation.status)}{from_caches}{error}"
        )
    if len(rank.compilations) > MOST_COMPILATIONS:
        yield f"  and {len(rank.compilations) - MOST_COMPILATIONS:,} more"
    yield from _section("To know:", [*gaps(ranks), *rank.notes])
    yield from _section("Files that are not compared:", list_unused_files(ranks))


def wait_sentences(ranks: ComparedRanks, group: RankGroup | None = None) -> list[str]:
    """Return the longest waits in sentences; of a group, those that it has a part in."""
    shown = waits(ranks.summaries)
    if group:
        shown = [wait for wait in shown if _has_part(group, wait)]
    return [f"{as_sentence(wait.description)}." for wait in shown[:MOST_WAITS]]


def _has_part(group: RankGroup, wait: Wait) -> bool:
    ranks = {wait.first, *wait.last, *wait.never, *wait.waiting}
    return not ranks.isdisjoint(group.ranks)


def chart_lines(chart: TimeLine) -> Iterator[str]:
    label = max(len(f"rank {row.rank}") for row in chart.rows)
    for row in chart.rows:
        yield f"{f'rank {row.rank}':>{label}} {row.cells.rstrip()}"
    yield f"{'':>{label}} {chart.axis}"
    yield LEGEND
    if chart.left_out:
        yield f"left out: {counted(chart.left_out, 'rank')} like one of these"


GROUP_COLUMNS = (
    Column("ranks"),
    Column("compilations"),
    Column("", narrowing="wrapped", least=LEAST_PROSE),
)


def _groups(ranks: ComparedRanks) -> Table:
    rows = [
        (rank_numbers(group.ranks), group_figures(group), describe_group(ranks, group))
        for group in ranks.groups[:MOST_GROUPS]
    ]
    more = len(ranks.groups) - MOST_GROUPS
    note = f"and {counted(more, 'more group')}" if more > 0 else ""
    return Table(GROUP_COLUMNS, rows, indent=2, note=note, has_titles=False)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("", title, *(f"  {line}" for line in lines))


def _list(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"{title}:", "", *(f"- {_escaped(line)}" for line in lines))


def _escaped(text: str) -> str:
    """Return a text escaped so that markdown shows it unchanged."""
    for sign in "\\`*_<[":
        text = text.replace(sign, f"\\{sign}")
    return text


# As JSON.


SCHEMA = "fx-explorer/ranks/1"


def ranks_json(ranks: ComparedRanks) -> dict[str, object]:
    """Return the whole answer; every finding, and every rank."""
    first = ranks.first
    first_divergence = _finding(first) if first else None
    known = known_aspects(ranks.summaries)
    agreed_aspects = {
        aspect: list(map(list, groups))
        for aspect, groups in agreement(ranks.summaries).items()
        if aspect in known
    }
    return {
        "schema": SCHEMA,
        "summary": " ".join(filter(None, (headline(ranks), first_sentence(ranks)))),
        "diverges": first is not None,
        "differing_ranks": list(ranks.differing),
        "first_divergence": first_divergence,
        "findings": [_finding(finding) for finding in ranks.findings],
        "groups": [_group(ranks, group) for group in ranks.groups],
        "agreement": agreed_aspects,
        "ranks": [_rank(rank) for rank in ranks.summaries],
        "waits": [_wait(wait) for wait in waits(ranks.summaries)],
        "notes": list(ranks.notes),
        "not_compared": [
            {"file": str(other_file.path), "why": other_file.why} for other_file in ranks.left_out
        ],
    }


def _rank(rank: RankSummary) -> dict[str, object]:
    return {
        "rank": rank.rank,
        "file": rank.path,
        "torch": rank.torch,
        "compilations": len(rank.compilations),
        "compile_seconds": round(rank.compile_s, 6),
        "unknown_end": rank.unknown_end,
        "damage": list(rank.notes),
    }


def _wait(wait: Wait) -> dict[str, object]:
    return {
        "compilation": wait.compilation,
        "function": wait.function,
        "file": wait.file,
        "line": wait.line,
        "last_ranks": list(wait.last),
        "first_rank": wait.first,
        "longest_seconds": round(wait.longest_s, 6),
        "ranks_that_may_never_come": list(wait.never),
        "words": wait.description,
    }


def _finding(finding: RankFinding) -> dict[str, object]:
    return {
        "aspect": finding.aspect,
        "is_divergence": finding.is_divergence,
        "ranks": list(finding.ranks),
        "others": list(finding.others),
        "words": finding.words,
        "compilation": finding.compilation,
        "other_compilation": finding.other_compilation,
        "function": finding.function,
        "file": finding.file,
        "line": finding.line,
    }


def _group(ranks: ComparedRanks, group: RankGroup) -> dict[str, object]:
    first = first_of_group(ranks.findings, group)
    first_divergence = _finding(first) if first else None
    return {
        "ranks": list(group.ranks),
        "first_divergence": first_divergence,
        "compilations": [_compilation(compilation) for compilation in group.first.compilations],
    }


def _compilation(compilation: CompilationSummary) -> dict[str, object]:
    return {
        "name": compilation.name,
        "function": compilation.function,
        "file": compilation.file,
        "line": compilation.line,
        "status": compilation.status,
        "cache": list(compilation.cache),
    }


# When each rank compiled.


COMPILES, COMPILES_OTHERS, WAITS, FAILS, NOTHING = "█", "▓", "·", "x", " "
"""Signs of the chart. Neighbouring compilations take turns between the first two."""

LEGEND = (
    f"{COMPILES} or {COMPILES_OTHERS} compiles   {WAITS} would wait in a collective for a rank "
    f"that still compiles it   {FAILS} failed"
)

MOST_ROWS = 32
"""Maximum number of ranks with a row of their own; if there are more, a few of each group have
one.
"""


@dataclass(frozen=True, slots=True)
class TimeLineRow:
    rank: int
    cells: str


@dataclass(frozen=True, slots=True)
class TimeLine:
    rows: tuple[TimeLineRow, ...]
    axis: str
    left_out: int
    """Ranks without a row."""


def time_line(groups: Sequence[RankGroup], width: int) -> TimeLine | None:
    """Return the chart, ``width`` cells wide; None where nothing was compiled, or where the ranks
    have no common clock.
    """
    ranks = _shown(groups)
    every = [compilation for rank in ranks for compilation in rank.compilations]
    ended = [compilation for compilation in every if compilation.has_ended]
    if not ended or not began_together(rank for group in groups for rank in group.members):
        return None
    start_s = min(compilation.start_s for compilation in ended)
    end_s = max(compilation.end_s for compilation in ended)
    latest = _latest(ranks)
    scale = (width - 1) / max(end_s - start_s, 1e-9)
    rows = [TimeLineRow(rank.rank, _cells(rank, latest, start_s, scale, width)) for rank in ranks]
    total = sum(len(group.members) for group in groups)
    return TimeLine(tuple(rows), _axis(end_s - start_s, width), total - len(rows))


def _shown(groups: Sequence[RankGroup]) -> list[RankSummary]:
    """Return all ranks; of many, the first of each group, and of the largest group those that end
    first and last.
    """
    members = [rank for group in groups for rank in group.members]
    if len(members) > MOST_ROWS:
        firsts = [group.first for group in groups[: MOST_ROWS - 2]]
        by_end = [rank for rank in groups[0].members if rank.compilations]
        by_end.sort(key=lambda rank: rank.compilations[-1].end_s)
        by_number = {rank.rank: rank for rank in (*firsts, *by_end[:1], *by_end[-1:])}
        members = list(by_number.values())
    return sorted(members, key=lambda rank: rank.rank)


def _latest(ranks: Sequence[RankSummary]) -> dict[str, float]:
    """Return when the last rank has compiled each graph with collectives."""
    found: dict[str, float] = {}
    for rank in ranks:
        for compilation in rank.compilations:
            if compilation.has_collectives and compilation.has_ended:
                found[compilation.name] = max(found.get(compilation.name, 0.0), compilation.end_s)
    return found


def _cells(
    rank: RankSummary, latest: dict[str, float], start_s: float, scale: float, width: int
) -> str:
    cells = [NOTHING] * width

    def fill(first_s: float, last_s: float, sign: str) -> None:
        first, last = int((first_s - start_s) * scale), int((last_s - start_s) * scale)
        cells[max(0, first) : min(width, last + 1)] = sign * (min(width, last + 1) - max(0, first))

    for compilation in rank.compilations:
        if compilation.has_collectives and compilation.status in ("ok", "broke"):
            fill(compilation.end_s, latest.get(compilation.name, compilation.end_s), WAITS)
    for at, compilation in enumerate(rank.compilations):
        if compilation.has_ended:
            fill(compilation.start_s, compilation.end_s, _sign(compilation, at))
    for compilation in rank.compilations:
        if compilation.status == "failed":
            fill(compilation.end_s, compilation.end_s, FAILS)
    return "".join(cells)


def _sign(one: CompilationSummary, at: int) -> str:
    return COMPILES_OTHERS if at % 2 else COMPILES


def _axis(whole_s: float, width: int) -> str:
    last = seconds(whole_s)
    return "0" + last.rjust(width - 1)
