"""This module makes the pages of commands that have ``--format html`` beside ``report``. Jinja is
imported only for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fx_explorer.instruments.ranks.compared import ComparedRanks


def difference_page(report: Mapping[str, Any], sentences: Sequence[str]) -> str:
    """Return the differences of two sessions as HTML."""
    from fx_explorer.report.page import difference

    return difference.difference_page(report, sentences)


def ranks_page(ranks: ComparedRanks) -> str:
    """Return the comparison of the ranks of a job as HTML."""
    from fx_explorer.report.page import ranks_compared

    return ranks_compared.ranks_page(ranks)
