"""This module makes the page of ``fx-explorer diff A B --format html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def difference_page(report: Mapping[str, Any], sentences: Sequence[str]) -> str:
    """Return the differences of two sessions as HTML."""
    from fx_explorer.report.page import difference  # Jinja is not needed for other formats

    return difference.difference_page(report, sentences)
