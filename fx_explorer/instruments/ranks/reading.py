"""This module turns one file into the summary of a rank, through a session. This work is done for
each file, in any process or on any machine.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from fx_explorer import model
from fx_explorer.analysis.whole_session import damage, is_text
from fx_explorer.errors import FxExplorerError
from fx_explorer.folders import temporary_folder
from fx_explorer.instruments.ranks.summary import (
    NO_GRAPH,
    CompilationSummary,
    GraphPrints,
    RankSummary,
    checked,
    fingerprint,
    graph_prints,
    short_target,
    without_identities,
)
from fx_explorer.readers.torch_log_text import printed_ranks, read_text
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.excerpt import write_excerpt
from fx_explorer.readers.torch_trace.places import is_library, is_torch
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.torch_texts.reports import parse_stack

NO_RANK = -1


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read, before its rank is decided."""

    path: str
    summary: RankSummary | None
    """The summary; None for a file that cannot be read."""
    told_ranks: tuple[tuple[int, int], ...] = ()
    """(rank, number of records that name it)."""
    error: str = ""
    is_log: bool = False
    """Whether it is a log of torch's and not a session. The two name functions differently."""


def read_file(path: str) -> ReadFile:
    """Return the summary of a log or session. It never raises, whatever the content of the file."""
    try:
        kind = kind_of_file(Path(path)).kind
        if kind == "log":
            return _read_log(path)
        if kind == "torch_logs":
            return _read_printed(path)
        with SessionReader(path) as reader:
            return ReadFile(path, summarise(reader, NO_RANK, path))
    except FxExplorerError as error:
        return ReadFile(path, None, error=str(error))
    except OSError as error:
        return ReadFile(path, None, error=f"{path} cannot be read: {error.strerror or error}")


def _read_log(path: str) -> ReadFile:
    with temporary_folder() as folder:
        session, log = folder / "log.fxs", folder / Path(path).stem
        with log.open("wb") as file:
            excerpt = write_excerpt(Path(path), file)
        if excerpt:
            read_log(log, session)
        else:
            read_log(Path(path), session)
        with SessionReader(session) as reader:
            summary = summarise(reader, NO_RANK, path)
            damaged = set((reader.meta("log") or {}).get("damaged_lines", ()))
    if excerpt is None:
        return ReadFile(path, summary, is_log=True)
    # A log whose texts were changed by hand has more that is damaged than its end.
    is_cut_off = bool(excerpt.unknown_end) and len(damaged) <= excerpt.keeps_last
    unknown_end = excerpt.unknown_end if is_cut_off else summary.unknown_end
    return ReadFile(path, replace(summary, unknown_end=unknown_end), excerpt.ranks, is_log=True)


def _read_printed(path: str) -> ReadFile:
    with opened(Path(path)) as reader:
        return ReadFile(path, summarise(reader, NO_RANK, path), printed_ranks(Path(path)))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[SessionReader]:
    """Give the session of a log or session file; that of a log is gone afterwards.

    Raises SessionError for what cannot be read.
    """
    kind = kind_of_file(path).kind
    if kind not in ("log", "torch_logs"):
        with SessionReader(path) as reader:
            yield reader
        return
    with temporary_folder() as folder:
        session = folder / "log.fxs"
        if kind == "log":
            read_log(path, session)
        else:
            read_text(path, session)
        with SessionReader(session) as reader:
            yield reader


# A session becomes the summary of a rank.


_FIRST_STAGES: tuple[model.Stage, ...] = ("dynamo", "pre_grad", "joint", "forward", "backward")
"""Stages in order. The first one with a graph provides the graph that represents a compilation;
later graphs were made from it.
"""

PART_OF_STAGE: dict[model.Stage, str] = {
    "dynamo": "Dynamo",
    "pre_grad": "Dynamo",
    **dict.fromkeys(("joint", "forward", "backward"), "AOTAutograd"),
    "backend": "its backend",
    **dict.fromkeys(("post_grad", "schedule", "output_code"), "Inductor"),
    "kernel": "the build of its kernels",
}
"""Stage → the part of torch.compile that it belongs to."""

_PIPELINE = re.compile(r"/pipelin\w*/|/pipe/|pipeline_parallel")
"""Files of the schedules of torch.distributed.pipelining, DeepSpeed and Megatron."""

_DDP = re.compile(r"torch/nn/parallel/distributed\.py$")

_SHARED = re.compile(r"\b(?:FSDP\w*|FullyShardedDataParallel|DistributedDataParallel|DTensor)\b")

_CUT_SHORT = ("killed", "timed_out", "cancelled", "incomplete")


def summarise(reader: SessionReader, rank: int, path: str) -> RankSummary:
    """Return the summary of one rank's session, for comparing it with other ranks."""
    in_use = reader.rows(model.Compilation, in_use=True)
    rows = [row for row in in_use if row.status not in ("restarted", "left")]
    is_pasted = is_text(reader)
    if is_pasted:  # messages of no frame are no compilation
        rows = [row for row in rows if "/" in row.name]
    caches = _cache_events(reader)
    began_s = _clock(reader, rows)
    texts = Texts(reader)
    all_rows = sorted(
        (_compilation(reader, row, tuple(caches.get(row.id, ())), texts, began_s) for row in rows),
        key=lambda compilation: compilation.start_s,
    )
    compilations = tuple(
        compilation for compilation in all_rows if compilation.has_ended or compilation.function
    )
    environment = reader.meta("environment") or {}
    unknown_end = _unknown_end(reader, all_rows)
    is_order_known = texts.is_order_whole or not unknown_end
    executed = fingerprint(texts.executed) if is_order_known else ""
    return RankSummary(
        rank,
        path,
        compilations,
        str(environment.get("torch") or ""),
        str(environment.get("python") or ""),
        executed,
        began_s is not None,
        unknown_end,
        is_pasted,
        tuple(damage(reader)),
        _files_of_same_name(reader),
    )


def _files_of_same_name(reader: SessionReader) -> tuple[str, ...]:
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in source_paths(reader).values():
        by_name[PurePath(path).name].append(path)
    shared = (paths for paths in by_name.values() if len(paths) > 1)
    return tuple(path for paths in shared for path in paths)


def _compilation(
    reader: SessionReader,
    row: model.Compilation,
    cache: tuple[str, ...],
    texts: Texts,
    began_s: float | None,
) -> CompilationSummary:
    graph = _graph(reader, row.id)
    checks = reader.rows(model.GuardCheck, compilation=row.id)
    breaks = reader.rows(model.GraphBreak, compilation=row.id)
    reasons = reader.rows(model.Recompile, compilation=row.id)
    scheduled = texts.collectives.get(row.id, ())
    has_collectives = bool(graph.collectives or scheduled)
    callers = [frame.file for frame in _callers(reader, row)]
    return CompilationSummary(
        row.name,
        row.function,
        *_place(reader, row),
        row.status,
        row.error,
        *_failure(reader, row),
        row.start_s + (began_s or 0.0),
        row.duration_s,
        graph.operations,
        graph.inputs,
        graph.tensors,
        graph.numbers,
        fingerprint(sorted(map(checked, checks))),
        fingerprint(sorted(str(check.code) for check in checks if check.kind == "EQUALS_MATCH")),
        fingerprint(
            f"{graph_break.file}:{graph_break.line} {graph_break.registry_id}"
            for graph_break in breaks
        ),
        fingerprint(
            sorted({f"{reason.of} {without_identities(reason.guard)}" for reason in reasons})
        ),
        cache,
        graph.collectives,
        fingerprint(scheduled),
        has_collectives,
        graph.modules,
        any(map(_PIPELINE.search, callers)),
        has_collectives
        or any(map(_DDP.search, callers))
        or any(_SHARED.search(f"{check.value_type} {check.code}") for check in checks),
        fingerprint(texts.results.get(row.id, ())),
    )


def _place(reader: SessionReader, row: model.Compilation) -> tuple[str, int]:
    """Return the first line of the function; for a wrapper function of torch's, the user's line
    that calls it.
    """
    if is_torch(row.file):
        users = [frame for frame in _callers(reader, row) if not is_torch(frame.file)]
        if users:
            return users[-1].file, users[-1].line
    return row.file, row.line


def _callers(reader: SessionReader, row: model.Compilation) -> tuple[model.Frame, ...]:
    if row.stack:
        return reader.get(model.Stack, row.stack).frames
    return ()


def _failure(reader: SessionReader, row: model.Compilation) -> tuple[str, tuple[str, int]]:
    """Return the stage in which a compilation failed, and the user's line that its traceback
    names.
    """
    rows = reader.rows(model.Failure, compilation=row.id, where="compiler")
    if row.status != "failed" or not rows:
        return "", ("", 0)
    if rows[-1].text:
        frames = parse_stack(reader.text(rows[-1].text))
    else:
        frames = ()
    users = [frame for frame in frames if _is_users(frame.file)]
    place = (users[-1].file, users[-1].line) if users else ("", 0)
    part = PART_OF_STAGE[rows[-1].stage] if rows[-1].stage else ""
    return part, place


def _is_users(path: str) -> bool:
    """Return whether a file belongs neither to a library nor to code generated by Inductor or FX
    (``<eval_with_key>``).
    """
    return path.startswith("/") and not is_library(path) and "/torchinductor_" not in path


def _graph(reader: SessionReader, compilation: int) -> GraphPrints:
    """Return the fingerprints of the graphs that represent a compilation: the whole graph, and
    those nested in it.
    """
    for stage in _FIRST_STAGES:
        graphs = reader.rows(model.Graph, compilation=compilation, stage=stage)
        if graphs:
            prints = [graph_prints(reader.nodes(graph)) for graph in graphs]
            if len(prints) == 1:
                return prints[0]
            return GraphPrints(*(fingerprint(column) for column in zip(*prints, strict=True)))
    return NO_GRAPH


class Texts:
    """Reads the JSON documents that torch writes: the order of collectives, the results of the
    generated code, and the order in which compiled graphs ran. A document is recognized by its
    content, not by its name.
    """

    def __init__(self, reader: SessionReader) -> None:
        self.collectives: dict[int, list[str]] = {}
        """Compilation → names of its collectives in Inductor's order."""
        self.results: dict[int, list[str]] = {}
        self.estimated_ns: dict[int, float] = {}
        """Compilation → torch's estimate of the run time of its code."""
        self.executed: list[str] = []
        self.is_order_whole = False
        """Whether the order in which graphs ran is one complete record, written at the end."""
        listings = reader.rows(model.Artifact, kind="listing", language="json")
        for artifact, text in reader.texts_of(listings):
            if _lists_collectives(text):
                self._add(artifact.compilation, text)

    def _add(self, compilation: int, text: str) -> None:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            # It is cut off or changed: the session counts it, and there is nothing to compare.
            return
        if isinstance(found, list):
            self.collectives.setdefault(compilation, []).extend(
                short_target(str(collective)) for collective in found
            )
        elif isinstance(found, dict):
            self.executed += _executed(found)
            self.is_order_whole = self.is_order_whole or "graph_execution_order" in found
            for operation in _dicts(found.get("ops")):
                self.results.setdefault(compilation, []).append(
                    f"{operation.get('name')} {operation.get('outputs')}"
                )
                estimated = operation.get("estimated_runtime_ns")
                if isinstance(estimated, int | float):
                    self.estimated_ns[compilation] = (
                        self.estimated_ns.get(compilation, 0.0) + estimated
                    )


def _lists_collectives(text: str) -> bool:
    start = text[:200].lstrip('[{ \n\t"')
    return start.startswith(
        ("torch.ops._c10d", "torch.ops.c10d", 'ops"', 'graph_execution_order"', 'graph"')
    )


def _executed(found: dict[str, Any]) -> Iterator[str]:
    """Yield the graphs that ran, from one record for all (``graph_execution_order``) or from single
    records.
    """
    for execution in _dicts(found.get("graph_execution_order")):
        yield str(execution.get("compile_id") or execution.get("graph"))
    if isinstance(found.get("graph"), str):
        yield str(found["graph"])


def _dicts(value: object) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return []


def _cache_events(reader: SessionReader) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for metric in reader.rows(model.Metric, name="cache_event"):
        event = json.loads(str(metric.value))
        if not str(event).endswith(
            "_hash"
        ):  # says that there is a key, and nothing of what happened to it
            found.setdefault(metric.compilation, []).append(str(event))
    return found


def _clock(reader: SessionReader, rows: list[model.Compilation]) -> float | None:
    """Return the time since the epoch at which the session's own clock is 0; None where it is not
    recorded.
    """
    began = {row.id: row.start_s for row in rows}
    for metric in reader.rows(model.Metric, name="compilation_metrics"):
        found = json.loads(str(metric.value))
        start = found.get("start_time") if isinstance(found, dict) else None
        if isinstance(start, int | float) and metric.compilation in began:
            return start - began[metric.compilation]
    return None


def _unknown_end(reader: SessionReader, compilations: Sequence[CompilationSummary]) -> str:
    log = reader.meta("log") or {}
    if log.get("is_cut_off"):
        return "the packed log ends in the middle"
    outcome = reader.meta("outcome")
    if outcome is None or model.Outcome.from_json(outcome).kind in _CUT_SHORT:
        return "its capture did not finish"
    if not log:
        # A capture knows that the program came to its end, whatever torch wrote of a compilation.
        return ""
    running = [compilation for compilation in compilations if not compilation.has_ended]
    if running:
        return f"[{running[-1].name}] has no end in it"
    return ""
