"""This module reads baselines: the text that ``check --update`` writes, or a JSON report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, first_line
from fx_explorer.errors import UsageError
from fx_explorer.instruments.breaks.grouped import PLAIN_REASONS
from fx_explorer.overview.baseline import VERSION, Baseline, BaselineFigure
from fx_explorer.overview.checks import CheckFinding

SCHEMA = "fx-explorer/report/1"

Json = Mapping[str, Any]


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
        return _baseline_of_report(content, Path.cwd())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"--baseline {path} is a damaged or partial report ({error!r}): write a whole one "
            "with fx-explorer report X --format json"
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


def _baseline_of_report(report: Json, folder: Path) -> Baseline:
    """Return the baseline. Files are named relative to ``folder``, also those of a report that was
    made in another checkout. A report does not say the sizes of inputs, which are taken to be the
    same. Raises KeyError, TypeError and others for a report that is damaged.
    """
    totals, environment, memory = report["totals"], report["environment"], report["memory"]
    figures = {
        "recompiles": BaselineFigure(float(totals["recompiles"]), tuple(_recompiles(report))),
        "graphs": BaselineFigure(float(totals["graphs"])),
        "kernels": BaselineFigure(float(totals["kernels"])),
        "compile_s": BaselineFigure(float(totals["compile_s"])),
        "guards": BaselineFigure(float(sum(row["guards"] or 0 for row in report["compilations"]))),
        "saved_bytes": BaselineFigure(float(_saved_bytes(report))),
    }
    if not any(process["graph_break_hits"] for process in report["child_processes"]):
        breaks = tuple(_breaks(report, folder))
        figures["graph_breaks"] = BaselineFigure(len(breaks), breaks)
    if memory and memory["is_known"]:
        figures["peak_bytes"] = BaselineFigure(float(memory["peak_bytes"]))
    target = report["target"]
    return Baseline(
        target=str(target.get("name") or ""),
        torch=str(environment.get("torch") or ""),
        device=str(environment.get("gpu") or environment.get("virtual_gpu") or "cpu"),
        sizes=None,
        figures=figures,
    )


def _breaks(report: Json, folder: Path) -> Iterator[CheckFinding]:
    for row in report["graph_breaks"]:
        count = int(row["count"])
        times = f" ({counted(count, 'time')})" if count > 1 else ""
        text = PLAIN_REASONS.get(row["id"] or "") or first_line(str(row["reason"]))
        text += times
        yield CheckFinding("", 0, f"{_in_checkout(str(row['file']), folder)}: {text}")


def _recompiles(report: Json) -> Iterator[CheckFinding]:
    functions = {row["id"]: row["function"] for row in report["compilations"]}
    for row in report["recompiles"]:
        if row["is_cause"]:
            function = plain_function(str(functions.get(row["compilation"], "")))
            text = f"{function} [{row['compilation']}]: {first_line(str(row['in_words']))}"
            yield CheckFinding("", 0, text)


def _saved_bytes(report: Json) -> int:
    """Return the bytes of what is saved, each storage once."""
    sizes: dict[tuple[str, str], int] = {}
    for row in report["saved_tensors"]:
        storage = str(row["storage"] or row["name"])
        sizes.setdefault((str(row["compilation"]), storage), int(row["bytes"] or 0))
    return sum(sizes.values())


def _in_checkout(file: str, folder: Path) -> str:
    """Return the end of a path that is a file below ``folder``; the path itself without one."""
    parts = Path(file).parts
    for start in range(1, len(parts)):
        rest = Path(*parts[start:])
        if (folder / rest).is_file():
            return str(rest)
    return file
