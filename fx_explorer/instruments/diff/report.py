"""This module writes the comparison of two sessions as text and as JSON (``fx-explorer/diff/1``),
for ``fx-explorer diff`` and for the view of a job's ranks. Both have the same facts. Beside the
figures it compares stages that backends published in both, paired by their names, and for each pair
of kernels the estimated times and the resources of every configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from fx_explorer.analysis.diff import CUT_IN_WORDS, describe_difference, graph_diff, text_diff
from fx_explorer.analysis.documents import lines_of, rows_of
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.measured_times import DIFFERS, ComparedFigure
from fx_explorer.analysis.published import ShownStage, published_stages
from fx_explorer.analysis.words import counted
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.compile_time.cache_report import difference_sentences, key_pair
from fx_explorer.instruments.compile_time.caches import key_pairs
from fx_explorer.instruments.diff.graph_pairs import (
    TOO_MANY,
    GraphPair,
    graph_lines,
    graph_pairs,
    has_too_many_nodes,
)
from fx_explorer.instruments.diff.kernel_pairs import (
    ARROW,
    IN_WORDS,
    KernelPair,
    code_diff,
    kernel_pairs,
    pair_counts,
)
from fx_explorer.instruments.diff.paired_facts import KINDS, PairedFact, paired_facts
from fx_explorer.instruments.diff.two_sessions import (
    COMPILE_TIME,
    breaks_of_reader_alone,
    figures_of_both,
)
from fx_explorer.instruments.kernels.candidates import Candidate, candidates, estimate
from fx_explorer.instruments.kernels.counts import KernelUse
from fx_explorer.instruments.kernels.gpu_limits import describe_bound, microseconds
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

LEAST_NAME_CELLS = MIN_COLUMN = 16
MIN_FIGURE = 24


def text_of_both(
    left: SessionReader, right: SessionReader, names: tuple[str, str], width: int | None = None
) -> Iterator[str]:
    """Yield the differences, line by line. Tables and names have at most ``width`` columns, None
    sets no limit; sentences may be longer.
    """
    yield from _figures(left, right, names, width)
    yield from _breaks(left, right, names)
    yield ""
    yield from _graphs(left, right)
    yield from _facts(paired_facts(left, right))
    yield from _published(stage_pairs(left, right))
    yield from _caches(list(difference_sentences(left, right, names)))
    yield ""
    pairs = kernel_pairs(left, right)
    yield from _kernels(pairs, width)
    yield from _resources(left, right, pairs, names, width)


def _figures(
    left: SessionReader, right: SessionReader, names: tuple[str, str], room: int | None
) -> Iterator[str]:
    figures = figures_of_both(left, right)
    if room:
        most = max(MIN_COLUMN, (room - MIN_FIGURE) // 3)
        names = cut_in_middle(names[0], most), cut_in_middle(names[1], most)
    column = max(MIN_COLUMN, *(cell_len(name) + 2 for name in names))
    # A long name of a figure takes from the column beside it, whose numbers stand to the right.
    width = max(
        MIN_FIGURE, *(len(figure.what) + 2 + len(figure.left) - column for figure in figures)
    )
    yield f"{'':<{width}}{names[0]:>{column}}{names[1]:>{column}}"
    for figure in figures:
        mark = " " if figure.what == COMPILE_TIME else "≠"
        words = "" if figure.change == DIFFERS else figure.change
        change = f"  {mark} {words}".rstrip() if figure.differs else ""
        left_part = figure.what + f"{figure.left:>{width + column - len(figure.what)}}"
        row = f"{left_part}  {figure.right:>{column - 2}}"
        if room is None or len(row) + len(change) <= room:
            yield row + change
        else:
            yield row
            yield f"{change.strip():>{room}}"


def _breaks(left: SessionReader, right: SessionReader, names: tuple[str, str]) -> Iterator[str]:
    for name, reader, other in ((names[0], left, right), (names[1], right, left)):
        for graph_break in breaks_of_reader_alone(reader, other):
            place = in_file(graph_break.file, graph_break.line)
            yield f"only {name} breaks at {place}: {graph_break.description}"


def _graphs(left: SessionReader, right: SessionReader) -> Iterator[str]:
    """Yield how the graphs differ, aligned by their structure, with all sizes in one line."""
    if has_too_many_nodes(left, right):
        yield TOO_MANY
    yield from graph_lines(graph_pairs(left, right))


MOST_FACTS = 12
"""Maximum number of guards, options, passes or missed fusions that the text lists."""


def _facts(facts: Sequence[PairedFact]) -> Iterator[str]:
    """Yield the guards, options, passes and missed fusions that differ."""
    for kind, title in KINDS.items():
        of_kind = [fact for fact in facts if fact.kind == kind]
        if not of_kind:
            continue
        yield f"{title} that differ: {sum(fact.times for fact in of_kind):,}"
        yield from (f"  {fact.words}" for fact in of_kind[:MOST_FACTS])
        if len(of_kind) > MOST_FACTS:
            yield f"  … {len(of_kind) - MOST_FACTS:,} more"


def _caches(sentences: list[str]) -> Iterator[str]:
    """Yield the reasons why torch's caches had a result for one side only."""
    if sentences:
        yield ""
        yield "torch's compile caches:"
        yield from (f"  {sentence}" for sentence in sentences)


def _published(pairs: list[StagePair]) -> Iterator[str]:
    """Yield the differences in stages that the user's own backends published."""
    if not pairs:
        return
    yield ""
    yield "stages published by the backend, by their names:"
    for pair in pairs:
        yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}: {pair.difference}"


def _kernels(pairs: list[KernelPair], width: int | None) -> Iterator[str]:
    counts = ", ".join(
        f"{count:,} {IN_WORDS[kind]}" for kind, count in pair_counts(pairs).items() if count
    )
    yield f"kernels, by what they compute: {counts or 'none'}"
    shown = [pair for pair in pairs if pair.difference not in ("same", "device")]
    if not shown:
        return
    # One difference of all of them stands in the heading, once.
    is_one_difference = {pair.difference for pair in shown} == {"sizes"}
    for pair in shown:
        what_differs = "" if is_one_difference else f": {_describe_pair(pair)}"
        head = f"  [{pair.compilation}] {pair.direction:<9} "
        room = width and width - len(head) - len(what_differs)
        yield f"{head}{_name(pair, room)}{what_differs}"


def _describe_pair(pair: KernelPair) -> str:
    """Return what differs between two kernels: ``3 changed lines``."""
    words = IN_WORDS[pair.difference]
    if pair.difference == "code" and pair.is_library_call:
        words = "another library call"
    elif pair.difference == "code" and pair.changed_lines:
        words = counted(pair.changed_lines, "changed line")
    return f"{words}; {CUT_IN_WORDS}" if pair.is_cut else words


def _name(pair: KernelPair, room: int | None) -> str:
    """Return the name of the kernel, or the names on both sides, shortened in the middle if there
    is no room.
    """
    if room is None or cell_len(pair.name) <= room:
        return pair.name
    names = pair.name.split(ARROW)
    each = (room - len(ARROW) * (len(names) - 1)) // len(names)
    return ARROW.join(cut_in_middle(name, max(LEAST_NAME_CELLS, each)) for name in names)


def _resources(
    left: SessionReader,
    right: SessionReader,
    pairs: list[KernelPair],
    names: tuple[str, str],
    width: int | None,
) -> Iterator[str]:
    """Yield, kernel by kernel, the estimates by the GPUs' data sheets and the resources of the
    builds.
    """
    rows = [(pair, estimated(left, pair.left), estimated(right, pair.right)) for pair in pairs]
    if not any(before or after for _, before, after in rows):
        return
    yield ""
    yield (
        f"estimated time of one call of each on its GPU, from the data sheets ({names[0]} · "
        f"{names[1]}):"
    )
    for pair, time, other_time in rows:
        if time or other_time:
            head = f"  [{pair.compilation}] {pair.direction:<9} "
            yield head + _name(pair, width and width - len(head))
            yield f"      {time or 'not known'}  ·  {other_time or 'not known'}"
        for configuration_pair in configuration_pairs(left, right, pair):
            before = describe_resources(configuration_pair.left)
            after = describe_resources(configuration_pair.right)
            yield f"      {configuration_pair.name}: {before}  ·  {after}"


# As JSON.


SCHEMA = "fx-explorer/diff/1"

Json = dict[str, object]


def two_sessions_report(left: SessionReader, right: SessionReader, names: tuple[str, str]) -> Json:
    """Compare two sessions, called ``names``. Figures are text, as they are shown; a kernel pair
    has the lines that differ.
    """
    return {
        "schema": SCHEMA,
        "left": names[0],
        "right": names[1],
        "figures": [_figure(figure) for figure in figures_of_both(left, right)],
        "graph_breaks": {
            "only_left": [
                _break(graph_break) for graph_break in breaks_of_reader_alone(left, right)
            ],
            "only_right": [
                _break(graph_break) for graph_break in breaks_of_reader_alone(right, left)
            ],
        },
        "graphs": None if has_too_many_nodes(left, right) else _graph_objects(left, right),
        "facts": [_fact(fact) for fact in paired_facts(left, right)],
        "caches": [key_pair(pair) for pair in key_pairs(left, right)],
        "published": [_stage(pair) for pair in stage_pairs(left, right)],
        "kernels": [_pair(left, right, pair) for pair in kernel_pairs(left, right)],
    }


def _figure(figure: ComparedFigure) -> Json:
    return {
        "what": figure.what.strip(),
        "left": figure.left,
        "right": figure.right,
        "difference": figure.change,
    }


def _graph_objects(left: SessionReader, right: SessionReader) -> list[Json]:
    return [_graph(pair) for pair in graph_pairs(left, right)]


def _graph(pair: GraphPair) -> Json:
    shown = pair.left or pair.right
    sizes = pair.alignment.sizes if pair.alignment else {}
    return {
        "compilation": pair.compilation,
        "title": pair.title,
        "stage": shown.stage if shown else None,
        "direction": shown.direction if shown else None,
        "left_nodes": pair.left.node_count if pair.left else None,
        "right_nodes": pair.right.node_count if pair.right else None,
        "same": pair.is_same,
        "sizes": [{"left": old, "right": new, "nodes": n} for (old, new), n in sizes.items()],
        "difference": pair.difference,
    }


def _fact(fact: PairedFact) -> Json:
    return {
        "kind": fact.kind,
        "name": fact.name,
        "left": fact.left,
        "right": fact.right,
        "times": fact.times,
    }


def _stage(pair: StagePair) -> Json:
    left = pair.left.size if pair.left else None
    right = pair.right.size if pair.right else None
    return {
        "compilation": pair.compilation,
        "name": pair.name,
        "direction": pair.direction or None,
        "left": left,
        "right": right,
        "difference": pair.difference,
    }


def _break(graph_break: DistinctBreak) -> Json:
    return {
        "id": graph_break.registry_id,
        "reason": graph_break.reason,
        "file": graph_break.file,
        "line": graph_break.line,
        "code": graph_break.code,
    }


def _pair(left: SessionReader, right: SessionReader, pair: KernelPair) -> Json:
    lines = _lines(left, right, pair) if pair.difference == "code" else []
    return {
        "compilation": pair.compilation,
        "direction": pair.direction,
        "left": _kernel(left, pair.left),
        "right": _kernel(right, pair.right),
        "difference": pair.difference.replace(" ", "_"),
        "comparison_was_cut": pair.is_cut,
        "lines": lines,
        "configurations": [
            _configuration(configurations)
            for configurations in configuration_pairs(left, right, pair)
        ],
    }


def _configuration(pair: ConfigurationPair) -> Json:
    return {
        "options": pair.options,
        "left": _resources_object(pair.left),
        "right": _resources_object(pair.right),
    }


def _kernel(reader: SessionReader, use: KernelUse | None) -> Json | None:
    if use is None:
        return None
    kernel = {"name": use.kernel.name, "language": use.kernel.language, "nodes": list(use.nodes)}
    return {**kernel, "estimate": estimated(reader, use) or None}


def _resources_object(candidate: Candidate | None) -> Json | None:
    """Return a candidate's resources as JSON; None if that side has not tried the configuration. A
    negative number means unknown.
    """
    if candidate is None:
        return None
    build = candidate.build
    occupancy = candidate.occupancy.share if candidate.occupancy else None
    return {
        "registers": build.registers,
        "spill_bytes": build.spill_bytes,
        "shared_bytes": build.shared_bytes,
        "occupancy": occupancy,
        "error": build.error or None,
    }


def _lines(left: SessionReader, right: SessionReader, pair: KernelPair) -> list[Json]:
    rows = code_diff(left, right, pair)
    return [{"left": row.before, "right": row.after} for row in rows if row.sign != " "]


# A pair of kernels for two GPUs: the estimated time of each, and what every configuration uses of
# its GPU.


@dataclass(frozen=True, slots=True)
class ConfigurationPair:
    """One set of options with its build on each side; None where the autotuner would not try it."""

    options: dict[str, object]
    left: Candidate | None
    right: Candidate | None

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


def estimated(reader: SessionReader, use: KernelUse | None) -> str:
    """Return ``3.8 µs, bound by memory``; empty for a missing kernel, or without an estimate."""
    gpu = session_gpu(reader)
    if use is None or gpu is None:
        return ""
    roofline = estimate(reader, use.kernel, gpu)
    if roofline.bound == "unknown":
        return ""
    return f"{microseconds(roofline.estimated_s)}, {describe_bound(roofline)}"


def configuration_pairs(
    left: SessionReader, right: SessionReader, pair: KernelPair
) -> list[ConfigurationPair]:
    """Pair the configurations that were built, on both sides or on one, in the order of the first
    side.
    """
    of_left, of_right = _by_options(left, pair.left), _by_options(right, pair.right)
    every = dict.fromkeys([*of_left, *of_right])
    return [ConfigurationPair(dict(key), of_left.get(key), of_right.get(key)) for key in every]


def _by_options(
    reader: SessionReader, use: KernelUse | None
) -> dict[tuple[tuple[str, object], ...], Candidate]:
    """Return options → the configuration, for all that were built; empty for a missing kernel."""
    gpu = session_gpu(reader)
    if use is None or gpu is None:
        return {}
    by_options = {}
    for candidate in candidates(reader, use.kernel, gpu):
        build = candidate.build
        if build.state == "failed" or build.has_resources:
            by_options[tuple(build.options.items())] = candidate
    return by_options


def describe_resources(candidate: Candidate | None) -> str:
    """Return ``27 registers, 100 % occupied``, with spills and shared memory if there are any."""
    if candidate is None:
        return "not tried"
    build = candidate.build
    if build.error:
        return "cannot be built"
    if build.registers >= 0:
        clauses = [f"{build.registers} registers"]
    else:
        clauses = ["registers not known"]
    if build.spill_bytes > 0:
        clauses.append(f"{build.spill_bytes} B spilled")
    if build.shared_bytes > 0:
        clauses.append(f"{build.shared_bytes:,} B shared")
    if candidate.occupancy:
        clauses.append(f"{candidate.occupancy.share:.0%} occupied")
    return ", ".join(clauses)


# Stages that backends published, paired by their names.


_Key = tuple[str, str, str, int]
"""(compilation, name, direction, how many of these were published before)."""


@dataclass(frozen=True, slots=True)
class StagePair:
    """Two stages of the same name, compilation and direction, one from each side; None where a side
    has none.
    """

    compilation: str
    name: str
    direction: str
    left: ShownStage | None
    right: ShownStage | None
    difference: str
    """``2 lines changed``, ``no difference``, ``only in the first``."""

    @property
    def differs(self) -> bool:
        return self.difference != "no difference"


def stage_pairs(left: SessionReader, right: SessionReader) -> list[StagePair]:
    """Return every stage that either session has, in the order of publishing."""
    of_left, of_right = _by_key(left), _by_key(right)
    pairs = []
    for key in dict.fromkeys((*of_left, *of_right)):
        compilation, name, direction, _ = key
        stage, other = of_left.get(key), of_right.get(key)
        difference = _difference(left, right, stage, other)
        pairs.append(StagePair(compilation, name, direction, stage, other, difference))
    return pairs


def _by_key(reader: SessionReader) -> dict[_Key, ShownStage]:
    seen: Counter[tuple[str, str, str]] = Counter()
    by_key: dict[_Key, ShownStage] = {}
    for stage in published_stages(reader):
        key = stage.document.owner, stage.stage.name, stage.stage.direction
        by_key[key[0], key[1], key[2], seen[key]] = stage
        seen[key] += 1
    return by_key


def _difference(
    left: SessionReader, right: SessionReader, stage: ShownStage | None, other: ShownStage | None
) -> str:
    if stage is None:
        return "only in the second"
    if other is None:
        return "only in the first"
    if stage.document.kind != other.document.kind:
        return f"a {_kind(stage)} in the first, a {_kind(other)} in the second"
    if stage.document.kind == "graph":
        return describe_difference(
            graph_diff(rows_of(left, stage.document), rows_of(right, other.document))
        )
    return describe_difference(
        text_diff(lines_of(left, stage.document), lines_of(right, other.document)), "line"
    )


def _kind(stage: ShownStage) -> str:
    if stage.document.kind == "graph":
        return "graph"
    return "text"
