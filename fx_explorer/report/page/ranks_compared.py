"""This module writes the comparison of the ranks of a job as one HTML file: the answer, what
differs, which ranks are alike, who waits, and when each compiled. The sentences are those of
``fx-explorer ranks``.
"""

from __future__ import annotations

from fx_explorer.instruments.ranks.compared import ComparedRanks
from fx_explorer.instruments.ranks.groups import RankGroup
from fx_explorer.instruments.ranks.rank_finding import rank_numbers
from fx_explorer.instruments.ranks.report import chart_lines, time_line, wait_sentences
from fx_explorer.instruments.ranks.sentences import (
    agreed,
    describe_group,
    first_sentence,
    further,
    gaps,
    group_figures,
    headline,
    list_unused_files,
)
from fx_explorer.report.page.template import policy, resource, template

CHART_CELLS = 110


def ranks_page(ranks: ComparedRanks) -> str:
    """Return the page."""
    style = resource("page.css")
    same, differing = agreed(ranks) if len(ranks.summaries) > 1 else ([], [])
    chart = time_line(ranks.groups, CHART_CELLS)
    what_else = "Then" if ranks.first else "Noted, and no divergence"
    return template("ranks.html").render(
        ranks=ranks,
        answer=headline(ranks),
        first=first_sentence(ranks),
        before=[(what_else, further(ranks.findings, ranks.first))],
        groups=[_cells(ranks, group) for group in ranks.groups],
        chart="\n".join(chart_lines(chart)) if chart else "",
        after=[
            ("Who waits", wait_sentences(ranks)),
            ("They differ in (ranks that agree | others)", differing),
            ("They agree in", same),
            ("To know", gaps(ranks)),
            ("Files that are not compared", list_unused_files(ranks)),
        ],
        style=style,
        policy=policy(style),
    )


def _cells(ranks: ComparedRanks, group: RankGroup) -> tuple[str, str, str]:
    return rank_numbers(group.ranks), group_figures(group), describe_group(ranks, group)
