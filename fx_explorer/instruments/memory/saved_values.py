"""This module describes the values that the forward saves for the backward: the size of each, where
it was computed and which operations need it, and why it is saved and not recomputed.

The reasons are the partitioner's grounds and figures, in plain words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_node
from fx_explorer.analysis.input_names import InputName, InputNames, result_name
from fx_explorer.analysis.lineage import in_use
from fx_explorer.analysis.module_paths import NO_MODULE, UNKNOWN, ModulePath, Root, roots
from fx_explorer.analysis.naming import SizeNames
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.model.rows.graph import BUDGET
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import compilation_names, source_paths
from fx_explorer.session.queries.nodes import users_by_node
from fx_explorer.session.reader import answered_once


@dataclass(frozen=True, slots=True)
class SavedValue:
    """A saved tensor, with the operation that computes it and those that use it."""

    saved: model.SavedTensor
    compilation: str
    producer: str
    """Target of the operation that computed it; empty for inputs."""
    place: Place | None
    """Its node in the forward graph."""
    file: str
    line: int
    consumers: tuple[str, ...]
    """Names of the backward nodes that use it."""
    consumer_lines: tuple[str, ...]
    """For each consumer, the user's line whose backward it belongs to; empty where it is not known.
    """
    module: str = ""
    """Path of the module whose code computes it: ``blocks.0.mlp``."""
    module_type: str = ""
    """Class of that module."""
    shares_with: str = ""
    """Name of an earlier value in the same storage, which is counted there; empty for the first."""
    shares_with_row: int = 0
    """Row of that value's SavedTensor."""


@answered_once
def saved_values(reader: SessionReader) -> list[SavedValue]:
    """Return the saved tensors of the variants in use, biggest storage first, unknown sizes
    last.
    """
    return _values(reader, _biggest_first(reader))


def biggest_saved_value(reader: SessionReader) -> SavedValue:
    """Return the first of ``saved_values``, of which there may be a thousand."""
    (biggest,) = _values(reader, _biggest_first(reader)[:1])
    return biggest


def _biggest_first(reader: SessionReader) -> list[model.SavedTensor]:
    return sorted(
        _rows(reader), key=lambda row: (-(kept_bytes(row) or 0), storage_of(row), -row.size_bytes)
    )


def _values(reader: SessionReader, rows: Sequence[model.SavedTensor]) -> list[SavedValue]:
    names = compilation_names(reader)
    paths = source_paths(reader)
    nodes = reader.by_ids(model.Node, (row.producer for row in rows))
    producers = {node.id: node for node in nodes}
    consumers = _consumers(reader, rows)
    first: dict[tuple[int, str], model.SavedTensor] = {}
    values = []
    for row in rows:
        earlier = first.setdefault(storage_of(row), row)
        producer = producers.get(row.producer)
        value = _value(reader, row, producer, consumers.get(row.consumer, ()), names, paths)
        if earlier.name != row.name:
            value = replace(value, shares_with=earlier.name, shares_with_row=earlier.id)
        values.append(value)
    return values


def _consumers(
    reader: SessionReader, rows: Iterable[model.SavedTensor]
) -> dict[int, list[model.Node]]:
    """Return input of a backward → the nodes that take it."""
    users = users_by_node(reader, {row.consumer for row in rows if row.consumer})
    wanted = set[int]().union(*users.values())
    nodes = {node.id: node for node in reader.by_ids(model.Node, wanted)}
    return {given: [nodes[user] for user in ids if user in nodes] for given, ids in users.items()}


def _rows(reader: SessionReader) -> list[model.SavedTensor]:
    used = in_use(reader)
    rows = reader.rows(model.SavedTensor)
    return [row for row in rows if used is None or row.compilation in used.saving]


def saving_compilations(reader: SessionReader) -> set[int]:
    """Return the compilations, of the variants in use, that save something."""
    return {row.compilation for row in _rows(reader)}


def _value(
    reader: SessionReader,
    row: model.SavedTensor,
    producer: model.Node | None,
    consumers: Sequence[model.Node],
    names: dict[int, str],
    paths: dict[int, str],
) -> SavedValue:
    value = SavedValue(
        saved=row,
        compilation=names.get(row.compilation, ""),
        producer="",
        place=None,
        file="",
        line=0,
        consumers=tuple(result_name(node) for node in consumers),
        consumer_lines=tuple(_line(node, paths) for node in consumers),
    )
    if producer is None:
        return value
    target = producer.target if producer.op != "placeholder" else ""
    return replace(
        value,
        producer=target,
        place=place_of_node(reader, producer),
        file=paths.get(producer.file, ""),
        line=producer.line,
        module=producer.module,
        module_type=producer.module_type,
    )


def _line(node: model.Node, paths: dict[int, str]) -> str:
    """Return the user's line of a node; empty where it is not known."""
    return in_file(paths[node.file], node.line) if node.file in paths else ""


def user_names(reader: SessionReader, values: Iterable[SavedValue]) -> dict[int, str]:
    """Return the user's names of saved values, by row: ``fc1.weight``, or the name of an argument;
    ``result 1 of sort`` and ``x.size(0)`` for values without a name. Other values that the forward
    computed are left out.
    """
    values = list(values)
    inputs = {value.saved.producer: value.saved.id for value in values if not value.producer}
    input_names = InputNames(reader).of(reader.by_ids(model.Node, inputs))
    names = {inputs[node]: name.name for node, name in input_names.items() if name.node}
    saved = [value.saved for value in values]
    picked = {row.producer: row.id for row in saved if row.name.startswith("getitem")}
    names |= {picked[node.id]: result_name(node) for node in reader.by_ids(model.Node, picked)}
    sizes = SizeNames(reader)
    numbers = [row for row in saved if row.kind == "number"]
    return names | {
        row.id: sizes.in_text(row.compilation, names.get(row.id, row.name)) for row in numbers
    }


@dataclass(frozen=True, slots=True)
class SavedTotal:
    count: int
    """The number of storages. Several views of one storage count once."""
    size_bytes: int
    """The bytes of the storages whose size is known."""
    unknown_sizes: int


COMPUTED = ("activation", "copy")
"""Kinds of values that a graph computes and saves only for the backward."""


def saved_total(reader: SessionReader, *kinds: str) -> SavedTotal:
    """Add up the storages of all saved values, or of those of some kinds (``activation``,
    ``parameter`` …).
    """
    return storage_total(row for row in _rows(reader) if not kinds or row.kind in kinds)


def computed_total(reader: SessionReader) -> SavedTotal:
    """Add up the storages that each graph computes and saves only for its backward. Results of an
    earlier graph that a later graph saves are not included: ``StepMemory.crossing_bytes``.
    """
    return saved_total(reader, *COMPUTED)


BIGGEST = 3
"""Number of saved values that a sentence names."""


def describe_saved(reader: SessionReader) -> str:
    """Return a sentence on the values that the forward saves for the backward, with the biggest of
    those it computes; empty where the session has no such graph.
    """
    whole, computed = saved_total(reader), computed_total(reader)
    if not whole.count:
        return ""
    values = [value for value in saved_values(reader) if value.saved.kind in COMPUTED]
    biggest = [value for value in values if not value.shares_with][:BIGGEST]
    names = user_names(reader, biggest)
    parts = [_named(value, names.get(value.saved.id, value.saved.name)) for value in biggest]
    verb = "is" if computed.count == 1 else "are"
    of_these = f" (the biggest: {listed(parts, BIGGEST)})" if parts else ""
    return (
        f"The forward saves {counted(whole.count, 'storage')}, {size(whole.size_bytes)}, for the "
        f"backward: {size(computed.size_bytes)} of it {verb} computed by the forward{of_these}; "
        "the rest are parameters, buffers and inputs, which exist anyway."
    )


def _named(value: SavedValue, name: str) -> str:
    kept = kept_bytes(value.saved)
    where = f" of {in_file(value.file, value.line)}" if value.file else ""
    how_big = "of unknown size" if kept is None else size(kept)
    return f"{name}{where} ({how_big})"


def storage_total(rows: Iterable[model.SavedTensor]) -> SavedTotal:
    """Add up the storages of these values. Every storage counts once, and whole; numbers have
    none.
    """
    sizes = {storage_of(row): kept_bytes(row) for row in rows if row.kind != "number"}
    known = [size for size in sizes.values() if size is not None]
    return SavedTotal(len(sizes), sum(known), len(sizes) - len(known))


def storage_of(row: model.SavedTensor) -> tuple[int, str]:
    """Return a key that identifies the storage. A value whose storage is not known gets a key of
    its own.
    """
    return row.compilation, row.storage or f"the row {row.id}"


def kept_bytes(row: model.SavedTensor) -> int | None:
    """Return the bytes of the whole storage that a saved value keeps allocated; None when they are
    not known.
    """
    if row.storage:
        if row.storage_bytes >= 0:
            return row.storage_bytes
        return None
    return row.size_bytes or None


def saved_paths(
    reader: SessionReader, values: list[SavedValue], known: Mapping[int, Root] | None = None
) -> list[ModulePath]:
    """Return the path of the module of each saved value."""
    known = roots(reader) if known is None else known
    inputs = [value.saved.producer for value in values if not value.producer]
    if inputs:
        named = InputNames(reader).of(reader.by_ids(model.Node, inputs))
    else:
        named = {}
    return [
        _saved_path(value, known.get(value.saved.compilation, UNKNOWN), named) for value in values
    ]


def _saved_path(value: SavedValue, root: Root, named: Mapping[int, InputName]) -> ModulePath:
    name = named.get(value.saved.producer)
    if value.producer or name is None:
        return root.path(value.module, value.module_type, is_of_user=bool(value.line))
    if name.kind == "input":
        return NO_MODULE
    return root.path(name.module, name.kind, is_of_user=True)


# Why a value is saved or computed again.


_WORDS = {
    "forward RNG seed": "it is the seed of random numbers",
    "not in recomputable allowlist": "it is not among the operations that are cheap to recompute",
    "compute intensive op": (
        "torch does not recompute matrix multiplications, convolutions or attention"
    ),
    "random op": "it draws random numbers, which would differ when recomputed",
    "non-builtin op": "it is a custom operator, whose cost torch does not know",
    "materialized in backward": "the backward would have to write it to memory in any case",
    "too far from backward": "it is too many operations away from the backward",
    "reduction op": "it is much smaller than the values it is computed from",
    "marked MUST_SAVE": "the program's checkpoint policy asks for it",
    "marked by checkpoint policy": "the program's checkpoint policy asks for it",
    "non-tensor output": "it is not a tensor: only its parts are saved",
    "view op (recompute_views=True)": "recomputing a view costs nothing",
}
"""The end of torch's reason (``solve_min_cut``, torch/_functorch/partitioners.py) → the same in
plain words. Other reasons are shown as torch writes them.
"""

INPUT = ": primal input"
"""torch's reason for saving an input of the graph."""

UNTOLD = (
    "torch does not recompute it if operations that use it are far apart, or at the end of a long "
    "chain"
)
"""Reason shown for a value that torch saves without giving one: two heuristics of its partitioner
on distance.
"""

STEP_FACTOR = 1.1
"""Factor by which the weight of saving grows with each step to the backward (``get_node_weight``).
"""

MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An operation of the forward that the backward recomputes."""

    choice: model.PartitionChoice
    node: model.Node
    place: Place


def choices(reader: SessionReader) -> dict[tuple[int, str], model.PartitionChoice]:
    """Return the partitioner's decision about each value of the variants in use, by compilation and
    name.
    """
    used = in_use(reader)
    rows = reader.rows(model.PartitionChoice)
    rows = [row for row in rows if used is None or row.compilation in used.saving]
    return {(row.compilation, row.name): row for row in rows}


def recomputed(reader: SessionReader) -> list[Recomputed]:
    """Return the operations that the backward recomputes, biggest first. Views are left out: they
    compute nothing.
    """
    rows = {row.node: row for row in choices(reader).values() if row.choice == "recomputed"}
    nodes = [node for node in reader.by_ids(model.Node, rows) if not node.is_view]
    operations = [Recomputed(rows[node.id], node, place_of_node(reader, node)) for node in nodes]
    return sorted(operations, key=lambda operation: -operation.choice.size_bytes)


def why(choice: model.PartitionChoice) -> str:
    """Return why a value is saved or recomputed, as one sentence without its full stop."""
    if choice.choice == "saved":
        return _why_saved(choice)
    return _why_recomputed(choice)


def _why_saved(choice: model.PartitionChoice) -> str:
    if choice.ground == "no_cut":
        return f"saved because the backward needs it: {_who_decided(choice)}"
    if choice.ground == "cut":
        return f"saved: the partitioner's minimum cut goes through it; {_weight(choice)}"
    if choice.reason.endswith(INPUT):
        return "saved because it is an input of the graph: it is in memory in any case"
    return f"saved: {_reason(choice)}"


def _why_recomputed(choice: model.PartitionChoice) -> str:
    if choice.ground == "must_recompute":
        return f"recomputed because {_reason(choice)}"
    if choice.ground == "cannot_save":
        return f"recomputed because it is never saved: {_reason(choice)}"
    if choice.ground == "no_cut":
        return f"recomputed in the backward: {_who_decided(choice)}"
    return f"recomputed in the backward from saved values; {_weight(choice)}"


def _who_decided(choice: model.PartitionChoice) -> str:
    """Say who chose what is saved of a graph whose min-cut partitioner did not run."""
    if choice.reason == BUDGET:
        return "the memory budget is 0, so only inputs of the graph are saved"
    backend, _, function = choice.reason.partition(": ")
    if function == "default_partition":
        return (
            f"backend {backend} splits the graph with torch's {function}, which saves "
            "whatever the backward needs"
        )
    if function:
        return f"backend {backend} splits the graph with {function}, which gives no reasons"
    return (
        "the partitioner had no choice in this graph, or its memory budget is 0, so there are no "
        "weights"
    )


def _reason(choice: model.PartitionChoice) -> str:
    text = choice.reason.partition(": ")[2]
    return _WORDS.get(text, text) or UNTOLD


def _weight(choice: model.PartitionChoice) -> str:
    """Explain the weight of saving, as far as it is known."""
    if choice.weight < 0 or choice.size_bytes < 0:
        return "the cost of saving it is not known"
    steps = min(MAX_STEPS, max(1, choice.distance))
    power = f"^{steps}" if steps > 1 else ""
    bound = ", torch's maximum" if steps == MAX_STEPS else ""
    return (
        f"the cost of saving it is {choice.weight:,.0f} = {size(choice.size_bytes)} × "
        f"{STEP_FACTOR}{power} ({counted(steps, 'step')} to the backward{bound}){_twice(choice)}"
    )


def _twice(choice: model.PartitionChoice) -> str:
    """Return a remark on a value that no kernel would write to memory otherwise: its weight is
    doubled.
    """
    once = choice.size_bytes * STEP_FACTOR ** max(1, min(MAX_STEPS, choice.distance))
    if once and 1.5 < choice.weight / once < 2.5:
        return " × 2 (no kernel would write it otherwise)"
    return ""
