"""A baseline is what a program's capture was like when it was accepted: figures, and what each of
them consists of, as a small text for the repository. A later capture is compared with it.

Code that moves, is renamed or reformatted changes no figure. What depends on the sizes of inputs is
compared for the same sizes only, and what depends on the release of torch or the device only for
the same ones. What is not compared is told with its reason.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fx_explorer.analysis.whole_session import (
    Subject,
    not_in_text,
    session_figures,
    types_of_inputs,
    why_saved_unknown,
)
from fx_explorer.analysis.words import size
from fx_explorer.findings.slow_operators import fallback_lines
from fx_explorer.instruments.kernels.costs import KernelCost, kernel_costs
from fx_explorer.instruments.memory.report import known_memory
from fx_explorer.instruments.memory.saved_values import saved_values
from fx_explorer.overview.check_findings import break_findings, left_findings, recompile_findings
from fx_explorer.overview.checks import BASELINE, Check, CheckFinding, relative_path
from fx_explorer.session import SessionReader

VERSION = 1

Verdict = Literal["FAIL", "IMPROVED", "PASS", "NOT COMPARED"]

DependsOn = Literal["", "torch", "sizes"]
"""What else has to be the same for a figure to be compared. ``torch``: release and device.
``sizes``: those and the sizes of inputs.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A figure that is compared with a baseline's."""

    name: str
    noun: str
    depends_on: DependsOn
    tolerance: float = 0.0
    """Share by which it may grow: less is within what changes by itself."""
    slack: float = 0.0
    """Amount by which it may grow in any case."""

    def shown(self, value: float) -> str:
        if self.name.endswith("_bytes"):
            return size(int(value))
        if self.name.endswith("_s"):
            return f"{value:.1f} s"
        return f"{value:,.0f}"

    def limit(self, before: float) -> float:
        return max(before * (1 + self.tolerance), before + self.slack)


KINDS = (
    Kind("graph_breaks", "graph breaks", ""),
    Kind("recompiles", "recompiles", ""),
    Kind("graphs", "graphs", ""),
    Kind("eager_functions", "functions in eager mode", ""),
    Kind("guards", "guards", "torch", tolerance=0.2, slack=10),
    Kind("kernels", "kernels", "sizes"),
    Kind("fallbacks", "operators that are not fused", "torch"),
    Kind("moved_bytes", "bytes that kernels move", "sizes", tolerance=0.02),
    Kind("saved_bytes", "bytes saved for the backward", "sizes", tolerance=0.02),
    Kind("peak_bytes", "predicted peak memory", "sizes", tolerance=0.02),
    Kind("compile_s", "compile time", "sizes", tolerance=1.0, slack=10.0),
)
"""The figures. The compile time is compared between machines, and varies with their load:
twice as much is within that.
"""


@dataclass(frozen=True, slots=True)
class BaselineFigure:
    value: float
    parts: tuple[CheckFinding, ...] = ()
    """What it consists of: breaks, kernels …; ``text`` is the same wherever the line moves to."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The figures of a capture, and what it was a capture of."""

    target: str
    torch: str
    device: str
    sizes: tuple[str, ...] | None
    """Types and shapes of the tensors that the first graph takes, without parameters; None where
    they are not known, and are taken to be the same.
    """
    figures: Mapping[str, BaselineFigure]

    def to_json(self) -> str:
        """Return the text of a file for the repository: a line for each figure and each part."""
        figures = {
            name: {"value": figure.value, "parts": sorted(map(_stored, figure.parts))}
            for name, figure in self.figures.items()
        }
        content = {
            "fx-explorer baseline": VERSION,
            "target": self.target,
            "torch": self.torch,
            "device": self.device,
            "sizes": None if self.sizes is None else list(self.sizes),
            "figures": figures,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _stored(part: CheckFinding) -> str:
    return ": ".join(filter(None, (part.file, part.text)))


def measure(reader: SessionReader, folder: Path, own: Path | None = None) -> Baseline:
    """Return the figures of a session; files below ``folder`` are named relative to it. With
    ``own``, breaks, recompiles and functions in eager mode are those of the files below it.
    """
    figures = session_figures(reader)
    environment = reader.meta("environment") or {}
    breaks = list(break_findings(reader, own))
    recompiles = list(recompile_findings(reader, own))
    left = list(left_findings(reader, own))
    kernels = kernel_costs(reader)
    moved = [cost for cost in kernels if cost.size_bytes >= 0]
    known = {
        "graph_breaks": BaselineFigure(len(breaks), tuple(breaks)),
        "recompiles": BaselineFigure(
            len(recompiles) if own else figures.recompiles, tuple(recompiles)
        ),
        "graphs": BaselineFigure(figures.graphs),
        "eager_functions": BaselineFigure(len(left), tuple(left)),
        "guards": BaselineFigure(figures.guards),
        "kernels": BaselineFigure(figures.kernels, tuple(map(_kernel, kernels))),
        "fallbacks": _fallbacks(reader),
        "compile_s": BaselineFigure(round(figures.compile_s, 2)),
    }
    if not why_saved_unknown(reader):
        known["saved_bytes"] = _saved(reader)
    if moved:
        moved_bytes = sum(cost.size_bytes for cost in moved)
        known["moved_bytes"] = BaselineFigure(moved_bytes, tuple(map(_moved, moved)))
    memory = known_memory(reader)
    if memory is not None:
        known["peak_bytes"] = BaselineFigure(memory.used.peak.total_bytes)
    lacking = {_OF_SUBJECT[subject] for subject in not_in_text(reader)}
    shown = {
        name: _relative(figure, folder) for name, figure in known.items() if name not in lacking
    }
    target = reader.meta("target") or {}
    return Baseline(
        target=str(target.get("name") or ""),
        torch=str(environment.get("torch") or ""),
        device=str(environment.get("gpu") or environment.get("virtual_gpu") or "cpu"),
        sizes=tuple(types_of_inputs(reader)),
        figures=shown,
    )


_OF_SUBJECT: Mapping[Subject, str] = {
    "graphs": "graphs",
    "graph breaks": "graph_breaks",
    "recompiles": "recompiles",
    "guards": "guards",
    "kernels": "kernels",
}
"""What torch was not asked to print → the figure of a text that it would be 0 without."""


def _relative(figure: BaselineFigure, folder: Path) -> BaselineFigure:
    parts = tuple(
        CheckFinding(relative_path(part.file, folder), part.line, part.text, part.rule)
        for part in figure.parts
    )
    return BaselineFigure(figure.value, parts)


_LAST_NUMBER = re.compile(r"_\d+$")


def _kernel(cost: KernelCost) -> CheckFinding:
    file, line = cost.lines[0] if cost.lines else ("", 0)
    kernel = cost.use.kernel
    return CheckFinding(file, line, f"{_LAST_NUMBER.sub('', kernel.name)} ({kernel.direction})")


def _moved(cost: KernelCost) -> CheckFinding:
    part = _kernel(cost)
    return CheckFinding(part.file, part.line, f"{part.text}: {size(cost.size_bytes)}")


def _fallbacks(reader: SessionReader) -> BaselineFigure:
    parts = tuple(
        CheckFinding(file, line, f"{operator} is fused with nothing")
        for operator, file, line in fallback_lines(reader)
    )
    return BaselineFigure(len(parts), parts)


def _saved(reader: SessionReader) -> BaselineFigure:
    counted_values = [value for value in saved_values(reader) if not value.shares_with]
    known = [value for value in counted_values if value.saved.size_bytes > 0]
    parts = []
    for value in known:
        saved = value.saved
        what = value.producer or saved.kind
        text = f"{what} {saved.dtype}[{', '.join(saved.shape)}] is saved for the backward"
        parts.append(CheckFinding(value.file, value.line, text))
    return BaselineFigure(sum(value.saved.size_bytes for value in known), tuple(parts))


# compared


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure now and in the baseline."""

    kind: Kind
    verdict: Verdict
    before: float | None
    now: float | None
    parts: tuple[CheckFinding, ...] = ()
    """What is new, at its line."""
    why: str = ""
    """Why it is not compared."""

    @property
    def description(self) -> str:
        """Return ``FAIL: graph breaks: 1 in the baseline, 2 now``."""
        if self.verdict == "NOT COMPARED":
            return f"not compared: {self.kind.noun}: {self.why}"
        assert self.before is not None
        assert self.now is not None
        before, now = self.kind.shown(self.before), self.kind.shown(self.now)
        return f"{self.verdict}: {self.kind.noun}: {before} in the baseline, {now} now"

    @property
    def check(self) -> Check:
        return Check(
            f"{BASELINE}{self.kind.name.replace('_', '-')}",
            0,
            self.description,
            self.parts,
            is_met=self.verdict != "FAIL",
        )


def compare(before: Baseline, now: Baseline) -> list[Difference]:
    """Return how each figure compares, those that fail first."""
    differences = [_difference(kind, before, now) for kind in KINDS]
    order = ("FAIL", "IMPROVED", "PASS", "NOT COMPARED")
    return sorted(differences, key=lambda difference: order.index(difference.verdict))


def _difference(kind: Kind, before: Baseline, now: Baseline) -> Difference:
    old, new = before.figures.get(kind.name), now.figures.get(kind.name)
    why = _why_not(kind, before, now)
    if old is None or new is None:
        where = "the baseline" if old is None else "this capture"
        why = why or f"{where} does not have it"
    if why or old is None or new is None:
        return Difference(kind, "NOT COMPARED", None, None, why=why)
    if new.value > kind.limit(old.value):
        return Difference(kind, "FAIL", old.value, new.value, tuple(_new_parts(old, new)))
    if new.value < old.value and old.value > kind.limit(new.value):
        return Difference(kind, "IMPROVED", old.value, new.value)
    return Difference(kind, "PASS", old.value, new.value)


def _why_not(kind: Kind, before: Baseline, now: Baseline) -> str:
    if kind.depends_on and before.torch != now.torch:
        return f"the baseline is of torch {before.torch}, this is {now.torch}"
    if kind.depends_on and before.device != now.device:
        return f"the baseline is of {before.device}, this is {now.device}"
    is_known = before.sizes is not None and now.sizes is not None
    if kind.depends_on == "sizes" and is_known and before.sizes != now.sizes:
        return "the inputs have different sizes or types than those of the baseline"
    return ""


def _new_parts(old: BaselineFigure, new: BaselineFigure) -> Iterator[CheckFinding]:
    """Yield the parts that the baseline does not have, or all where each looks like one of its."""
    known = Counter(part.text for part in old.parts)
    fresh = []
    for part in new.parts:
        stored = _stored(part)
        if known[stored]:
            known[stored] -= 1
        else:
            fresh.append(part)
    yield from fresh or new.parts
