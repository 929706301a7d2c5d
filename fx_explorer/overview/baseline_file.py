"""This module reads baselines: the text that ``check --update`` writes, or a JSON report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fx_explorer.errors import UsageError
from fx_explorer.overview.baseline import VERSION, Baseline, BaselineFigure
from fx_explorer.overview.checks import CheckFinding
from fx_explorer.overview.report_baseline import SCHEMA, baseline_of_report


def read_baseline(path: Path) -> Baseline:
    """Return the baseline of a file, or of a JSON report. Raises UsageError for a file that is
    neither.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--baseline {path}: {error.strerror}; --update writes one") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--baseline {path} is not a baseline: {error}") from error
    if not isinstance(content, dict):
        raise UsageError(f"--baseline {path} is not a baseline; --update writes one")
    if is_report(content):
        return _from_report(content, path)
    version = content.get("fx-explorer baseline")
    if version != VERSION:
        what = f"of version {version}" if isinstance(version, int) else "no baseline"
        raise UsageError(f"--baseline {path} is {what}; --update writes one of version {VERSION}")
    try:
        return _from_json(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"--baseline {path} is damaged ({error!r}); --update writes it again"
        ) from error


def is_report(content: dict[str, Any]) -> bool:
    return str(content.get("schema", "")).startswith("fx-explorer/report/")


def _from_report(content: dict[str, Any], path: Path) -> Baseline:
    if content["schema"] != SCHEMA:
        raise UsageError(f"--baseline {path} is a report of version {content['schema']}")
    try:
        return baseline_of_report(content, Path.cwd())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"--baseline {path} is a report that is damaged, or of parts only ({error!r}): write a "
            "whole one with fx-explorer report X --format json"
        ) from error


def _from_json(content: dict[str, Any]) -> Baseline:
    figures = {}
    for name, figure in content["figures"].items():
        parts = tuple(CheckFinding("", 0, str(part)) for part in figure["parts"])
        figures[str(name)] = BaselineFigure(float(figure["value"]), parts)
    return Baseline(
        str(content["target"]),
        str(content["torch"]),
        str(content["device"]),
        None if content["sizes"] is None else tuple(map(str, content["sizes"])),
        figures,
    )
