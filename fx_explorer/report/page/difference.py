"""This module writes the differences of two sessions as one HTML file: the figures side by side,
graph breaks that one of them has, and kernels that differ, line by line. All of it is the JSON
report's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fx_explorer.instruments.diff.kernel_pairs import IN_WORDS
from fx_explorer.instruments.diff.paired_facts import KINDS
from fx_explorer.report.page.template import policy, resource, template

FEW_FACTS = 20
"""Number of options, guards, passes … that are shown before they are asked for."""

MOST_LINES = 400
"""Maximum number of differing lines of a kernel that are shown; the page says how many more."""


def difference_page(report: Mapping[str, Any], sentences: Sequence[str]) -> str:
    """Return the page. ``report`` is the JSON report of two sessions; ``sentences`` say what
    differs in torch's compile caches.
    """
    style = resource("page.css")
    kernels = report["kernels"]
    graphs = report["graphs"] or ()
    return template("difference.html").render(
        report=report,
        sentences=sentences,
        breaks=[
            (report["left"], report["graph_breaks"]["only_left"]),
            (report["right"], report["graph_breaks"]["only_right"]),
        ],
        differing_graphs=[graph for graph in graphs if not graph["same"]],
        same_graphs=sum(graph["same"] for graph in graphs),
        facts=[(title.capitalize(), rows) for title, rows in _by_kind(report["facts"])],
        few=FEW_FACTS,
        counts=Counter(_words(pair) for pair in kernels),
        differing=[pair for pair in kernels if pair["difference"] not in ("same", "device")],
        words=_words,
        most_lines=MOST_LINES,
        style=style,
        policy=policy(style),
    )


def _by_kind(facts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield each kind of facts that differ with its title."""
    for kind, title in KINDS.items():
        rows = [fact for fact in facts if fact["kind"] == kind]
        if rows:
            yield title, rows


def _words(pair: Mapping[str, Any]) -> str:
    """Return how the kernels of a pair differ."""
    named = {kind.replace(" ", "_"): words for kind, words in IN_WORDS.items()}
    return named[pair["difference"]]
