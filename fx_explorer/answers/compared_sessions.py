"""The answer to "what changed": two sessions, figure by figure, with what only one of them has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.alignment_words import NO_DIFFERENCE
from fx_explorer.analysis.diff import text_diff
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.words import counted, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.instruments.diff.graph_pairs import graph_pairs
from fx_explorer.instruments.diff.kernel_pairs import IN_WORDS, KernelPair, code_diff, kernel_pairs
from fx_explorer.instruments.diff.paired_facts import paired_facts
from fx_explorer.instruments.diff.two_sessions import COMPILE_TIME, figures_of_both
from fx_explorer.overview.baseline import KINDS, Baseline, BaselineFigure, measure
from fx_explorer.overview.checks import CheckFinding
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries.compilations import source_paths

CHANGED_LINES = 30
"""Maximum number of changed lines of one kernel."""


def of_difference(before: SessionReader, after: SessionReader) -> Answer:
    """Return what differs: figures, lines of the source, operators, then what only one session has
    (breaks, recompiles, fallbacks, saved tensors), options, and kernels whose code differs.
    """
    figures = [figure for figure in figures_of_both(before, after) if figure.differs]
    rows: list[Json] = []
    for figure in figures:
        if figure.what != COMPILE_TIME:
            change = {"before": figure.left, "after": figure.right, "change": figure.change}
            rows.append({"what": "figure", "name": figure.what.strip(), **change})
    rows += _source_lines(before, after)
    rows += _operators(before, after)
    rows += _parts(measure(before, Path()), measure(after, Path()))
    rows += _graphs(before, after)
    rows += _facts(before, after)
    rows += _kernels(before, after)
    return Answer(
        text=_sentence(rows),
        rows=rows,
        known_from="both sessions; kernels are paired by the operations they compute",
        next=[],
    )


def _sentence(rows: list[Json]) -> str:
    if not rows:
        return "Nothing differs but times."
    counts = Counter(str(row["what"]) for row in rows)
    differing = listed([f"{name}: {count}" for name, count in counts.items()], 8)
    return f"{counted(len(rows), 'difference')} ({differing})."


def _source_lines(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    """Yield the lines of the user's files that differ. Files are paired by path, by name, else the
    target of one with the target of the other.
    """
    for old, new in _source_pairs(before, after):
        lines = text_diff(_lines_of(before, old), _lines_of(after, new))
        number = 0
        for row in lines:
            if row.after is not None and row.sign != "-":
                number += 1
            if row.sign == " ":
                continue
            yield {
                "what": "source line",
                "at": f"{new.path}:{max(1, number)}",
                "before": (row.before or "").strip() if row.sign != "+" else "",
                "after": (row.after or "").strip() if row.sign != "-" else "",
            }


def _source_pairs(
    before: SessionReader, after: SessionReader
) -> Iterator[tuple[model.SourceFile, model.SourceFile]]:
    old_files, new_files = _user_files(before), _user_files(after)
    by_path = {file.path: file for file in new_files}
    by_name = {file_name(file.path): file for file in new_files}
    targets = {_target_path(before): _target_path(after)}
    for old in old_files:
        new = by_path.get(old.path) or by_name.get(file_name(old.path))
        if new is None:
            new = by_path.get(targets.get(old.path, ""))
        if new is not None:
            yield old, new


def _user_files(reader: SessionReader) -> list[model.SourceFile]:
    return [file for file in reader.rows(model.SourceFile, is_user=True) if file.text]


def _target_path(reader: SessionReader) -> str:
    return str((reader.meta("target") or {}).get("file") or "")


def _lines_of(reader: SessionReader, file: model.SourceFile) -> list[str]:
    return reader.text(file.text).splitlines()


def _operators(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    """Yield the operators that Dynamo's graphs have more or less often, with a line."""
    old, new = _operator_lines(before), _operator_lines(after)
    for name in sorted(old.keys() | new.keys()):
        old_lines, new_lines = old.get(name, []), new.get(name, [])
        if len(old_lines) == len(new_lines):
            continue
        lines = new_lines if len(new_lines) > len(old_lines) else old_lines
        yield {
            "what": "operator",
            "name": name,
            "before": str(len(old_lines)),
            "after": str(len(new_lines)),
            "at": ", ".join(dict.fromkeys(filter(None, lines))),
        }


def _operator_lines(reader: SessionReader) -> dict[str, list[str]]:
    """Return operator → the line of each of its calls in Dynamo's graphs."""
    paths = source_paths(reader)
    lines: dict[str, list[str]] = {}
    used = graphs_in_use(reader)
    for graph in reader.rows(model.Graph, stage="dynamo"):
        if used is not None and graph.id not in used:
            continue
        for node in reader.nodes(graph):
            if node.op.startswith("call"):
                at = f"{paths[node.file]}:{node.line}" if node.file in paths else ""
                lines.setdefault(node.target, []).append(at)
    return lines


def _parts(before: Baseline, after: Baseline) -> Iterator[Json]:
    """Yield what each figure consists of, where only one session has it."""
    for kind in KINDS:
        old = before.figures.get(kind.name, BaselineFigure(0))
        new = after.figures.get(kind.name, BaselineFigure(0))
        if kind.name in ("kernels", "moved_bytes", "guards"):
            continue  # kernels and guards are compared one by one
        for side, here, there in (("before", old, new), ("after", new, old)):
            for part, count in _only_in(here, there).items():
                yield {
                    "what": f"only {side}",
                    "name": kind.noun,
                    "text": part.text,
                    "at": f"{part.file}:{part.line}" if part.file else "",
                    "times": count if count > 1 else None,
                }


def _only_in(here: BaselineFigure, there: BaselineFigure) -> Counter[CheckFinding]:
    """Return the parts that the other figure does not have, wherever their lines have moved to."""
    known = Counter((part.file, part.text) for part in there.parts)
    only: Counter[CheckFinding] = Counter()
    for part in here.parts:
        key = (part.file, part.text)
        if known[key]:
            known[key] -= 1
        else:
            only[part] += 1
    return only


def _graphs(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    """Yield the graphs that differ, aligned by their structure."""
    for pair in graph_pairs(before, after):
        if pair.difference != NO_DIFFERENCE:
            yield {
                "what": "graph",
                "name": pair.title,
                "compilation": pair.compilation,
                "change": pair.difference,
            }


def _facts(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    """Yield the options, passes, guards and missed fusions that differ."""
    for fact in paired_facts(before, after):
        yield {
            "what": fact.kind,
            "name": fact.name,
            "before": fact.left or "",
            "after": fact.right or "",
            "times": fact.times if fact.times > 1 else None,
        }


def _kernels(before: SessionReader, after: SessionReader) -> Iterator[Json]:
    for pair in kernel_pairs(before, after):
        if pair.difference in ("same", "device"):
            continue
        lines = _changed_lines(before, after, pair) if pair.difference == "code" else []
        use = pair.right or pair.left
        yield {
            "what": "kernel",
            "name": pair.name,
            "compilation": pair.compilation,
            "direction": pair.direction,
            "change": IN_WORDS[pair.difference],
            "computes": list(use.nodes) if use else [],
            "changed_lines": lines,
        }


def _changed_lines(before: SessionReader, after: SessionReader, pair: KernelPair) -> list[str]:
    lines = []
    for row in code_diff(before, after, pair):
        if row.sign == " ":
            continue
        if row.before is not None and row.sign != "+":
            lines.append(f"- {row.before}")
        if row.after is not None and row.sign in "+~":
            lines.append(f"+ {row.after}")
    return lines[:CHANGED_LINES]
