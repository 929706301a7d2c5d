"""Ranks as text for people, and as markdown for an issue."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import seconds
from fx_explorer.instruments.ranks.compared import ComparedRanks
from fx_explorer.instruments.ranks.divergence import STATUS_WORDS, cache_in_words
from fx_explorer.instruments.ranks.finding import rank_numbers
from fx_explorer.instruments.ranks.groups import RankGroup
from fx_explorer.instruments.ranks.sentences import (
    agreed,
    as_sentence,
    first_sentence,
    further,
    gaps,
    group_figures,
    group_words,
    headline,
    left_out_words,
)
from fx_explorer.instruments.ranks.summary import RankSummary
from fx_explorer.instruments.ranks.time_line import LEGEND, TimeLine, time_line
from fx_explorer.instruments.ranks.waiting import waits
from fx_explorer.output.table import Column, Table
from fx_explorer.output.terminal import LEAST_PROSE
from fx_explorer.output.text import Block
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
    yield from _section("Then:" if ranks.first else "Noted, and no divergence:", rest)
    if ranks.groups:
        yield from ("", "Ranks that are alike:", _groups(ranks))
    yield from _section("Who waits:", _waits(ranks))
    chart = time_line(ranks.groups, max(20, width - 12))
    if chart:
        yield from ("", "When each compiled:", *(f"  {line}" for line in chart_lines(chart)))
    same, other = agreed(ranks)
    if len(ranks.summaries) > 1:
        yield from _section("They agree in:", [", ".join(same)] if same else [])
        yield from _section("They differ in (ranks that agree | others):", other)
    yield from _section("To know:", gaps(ranks))
    yield from _section("Files that are not compared:", left_out_words(ranks))


def ranks_markdown(ranks: ComparedRanks) -> Iterator[str]:
    """Yield the lines of the same answer for an issue or a pull request."""
    yield f"**{_escaped(headline(ranks))}**"
    if sentence := first_sentence(ranks):
        yield from ("", _escaped(sentence))
    yield from _list(
        "Then" if ranks.first else "Noted, and no divergence",
        list(further(ranks.findings, ranks.first)),
    )
    yield from ("", "| ranks | compilations | |", "| --- | --- | --- |")
    for group in ranks.groups[:MOST_GROUPS]:
        cells = rank_numbers(group.ranks), group_figures(group), group_words(ranks, group)
        yield f"| {' | '.join(_escaped(cell).replace('|', chr(92) + '|') for cell in cells)} |"
    yield from _list("Who waits", _waits(ranks))
    chart = time_line(ranks.groups, 80)
    if chart:
        yield from ("", "```", *chart_lines(chart), "```")
    yield from _list("To know", gaps(ranks))
    yield from _list("Files that are not compared", left_out_words(ranks))


def group_text(
    ranks: ComparedRanks, group: RankGroup, rank: RankSummary, width: int
) -> Iterator[str]:
    """Yield all that is known of a group; ``rank`` is the one of it whose compilations are listed."""
    of_group = [finding for finding in ranks.findings if finding.ranks == group.ranks]
    if rank.unknown_end:
        yield f"What rank {rank.rank} did in the end is unknown: {rank.unknown_end}."
    if of_group:
        yield "In what they differ from the first group, in the order in which it happened:"
        yield from (f"  {line}" for line in further(of_group, None))
        yield ""
    chart = time_line(ranks.groups, max(20, width - 12))
    if chart:
        yield from ("When each compiled:", *(f"  {line}" for line in chart_lines(chart)), "")
    parts = _waits(ranks, group)
    if parts:
        yield from ("Who waits:", *(f"  {line}" for line in parts), "")
    yield f"What rank {rank.rank} compiled ({rank.path}):"
    for compilation in rank.compilations[:MOST_COMPILATIONS]:
        said = f", {', '.join(map(cache_in_words, compilation.cache))}" if compilation.cache else ""
        why = compilation.error.partition(" Explanation: ")[
            0
        ]  # the rest of torch's report is for a screen of its own
        error = f": {why}" if why else ""
        if compilation.file:
            where = f"{plain_function(compilation.function)} at {in_file(compilation.file, compilation.line)}"
        else:
            where = ""
        yield (
            f"  [{compilation.name}] {where}  {seconds(compilation.duration_s)}  "
            f"{STATUS_WORDS.get(compilation.status, compilation.status)}{said}{error}"
        )
    if len(rank.compilations) > MOST_COMPILATIONS:
        yield f"  and {len(rank.compilations) - MOST_COMPILATIONS:,} more"
    yield from _section("To know:", [*gaps(ranks), *rank.notes])
    yield from _section("Files that are not compared:", left_out_words(ranks))


def _waits(ranks: ComparedRanks, group: RankGroup | None = None) -> list[str]:
    """Return the longest waits in sentences; of a group, those that it has a part in."""
    found = waits(ranks.summaries)
    if group:
        found = [
            wait
            for wait in found
            if {wait.first, *wait.last, *wait.never, *wait.waiting} & set(group.ranks)
        ]
    return [f"{as_sentence(wait.in_words)}." for wait in found[:MOST_WAITS]]


def chart_lines(chart: TimeLine) -> Iterator[str]:
    label = max(len(f"rank {row.rank}") for row in chart.rows)
    for row in chart.rows:
        yield f"{f'rank {row.rank}':>{label}} {row.cells.rstrip()}"
    yield f"{'':>{label}} {chart.axis}"
    yield LEGEND
    if chart.left_out:
        yield f"{chart.left_out:,} ranks that are like one of these are left out"


GROUP_COLUMNS = (
    Column("ranks"),
    Column("compilations"),
    Column("", narrowing="wrapped", least=LEAST_PROSE),
)


def _groups(ranks: ComparedRanks) -> Table:
    rows = [
        (rank_numbers(group.ranks), group_figures(group), group_words(ranks, group))
        for group in ranks.groups[:MOST_GROUPS]
    ]
    more = len(ranks.groups) - MOST_GROUPS
    note = f"and {more:,} more groups" if more > 0 else ""
    return Table(GROUP_COLUMNS, rows, indent=2, note=note, has_titles=False)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("", title, *(f"  {line}" for line in lines))


def _list(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"{title}:", "", *(f"- {_escaped(line)}" for line in lines))


def _escaped(text: str) -> str:
    """Return a text that markdown shows as it is."""
    for sign in "\\`*_<[":
        text = text.replace(sign, f"\\{sign}")
    return text
