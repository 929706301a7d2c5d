"""This module defines how rows of ``fx_explorer.model`` are stored in SQLite: one table per
dataclass, one column per field.

A field that is a tuple or dict is JSON text. Rows of the classes in ``PACKED`` are stored many in
one (``packed_rows.py``).

The tables are derived from the dataclasses, so the two cannot drift. Beside them stand ``meta``
(key → JSON) and ``text`` (compressed, stored once however often it occurs). No pickle: opening a
stranger's session can run nothing.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

from fx_explorer import model
from fx_explorer.model.secret_arguments import without_known_keys
from fx_explorer.session.bounds import MAX_FIELD, bounded, shortened
from fx_explorer.session.packed_rows import PACKED
from fx_explorer.session.untrusted.validating import rows_maker

SCHEMA_VERSION = 19
"""Version of the session format. Sessions of this version are read, and no others."""

APPLICATION_ID = 0x46585331
"""``FXS1`` in the SQLite header: distinguishes a session from any other SQLite file."""


class SessionRow(Protocol):
    """Any dataclass of fx_explorer.model."""

    __dataclass_fields__: ClassVar[Any]


TABLES: dict[type, str] = {
    model.Compilation: "compilation",
    model.Artifact: "artifact",
    model.Graph: "graph",
    model.PublishedStage: "published_stage",
    model.SupportReport: "support_report",
    model.NodeSupport: "node_support",
    model.BackendEntry: "backend_entry",
    model.BackendRun: "backend_run",
    model.BackendInstruction: "backend_instruction",
    model.FrontEnd: "front_end",
    model.Node: "node",
    model.Edge: "edge",
    model.Stack: "stack",
    model.SourceFile: "source_file",
    model.Kernel: "kernel",
    model.KernelCall: "kernel_call",
    model.KernelBuild: "kernel_build",
    model.KernelLaunch: "kernel_launch",
    model.KernelTime: "kernel_time",
    model.CardCeiling: "card_ceiling",
    model.LibraryWorkspace: "library_workspace",
    model.WithoutKernel: "without_kernel",
    model.UnfusedPair: "unfused_pair",
    model.LoopNest: "loop_nest",
    model.KernelDecision: "kernel_decision",
    model.GraphPass: "graph_pass",
    model.PassChange: "pass_change",
    model.NearMatch: "near_match",
    model.Decomposed: "decomposed",
    model.SideEffect: "side_effect",
    model.GraphValues: "graph_values",
    model.ValueFact: "value_fact",
    model.ProcessGroup: "process_group",
    model.Redistribution: "redistribution",
    model.NodeMeta: "node_meta",
    model.RegionUse: "region_use",
    model.Link: "link",
    model.LeftOut: "left_out",
    model.LineNode: "line_node",
    model.LineSource: "line_source",
    model.GraphBreak: "graph_break",
    model.ResumeFunction: "resume_function",
    model.LocalTensor: "local_tensor",
    model.GraphCall: "graph_call",
    model.ReturnedStorage: "returned_storage",
    model.SavedBetween: "saved_between",
    model.Fallback: "fallback",
    model.Guard: "guard",
    model.GuardCheck: "guard_check",
    model.GuardAnswer: "guard_answer",
    model.FilterAnswer: "filter_answer",
    model.Recompile: "recompile",
    model.Symbol: "symbol",
    model.SymbolEvent: "symbol_event",
    model.SavedTensor: "saved_tensor",
    model.PartitionChoice: "partition_choice",
    model.Span: "span",
    model.PhaseLine: "phase_line",
    model.Metric: "metric",
    model.ConsoleLine: "console",
    model.Failure: "failure",
    model.ChildProcess: "child_process",
    model.ChildFinding: "child_finding",
    model.Setting: "setting",
    model.OptionInForce: "option_in_force",
    model.Intervention: "intervention",
    model.RegionLowering: "region_lowering",
    model.Measurement: "measurement",
    model.CallTime: "call_time",
    model.BreakTime: "break_time",
    model.Verification: "verification",
    model.RemedyTrial: "remedy_trial",
    model.CacheComparison: "cache_comparison",
    model.TraceAttempt: "trace_attempt",
    model.TracedCall: "traced_call",
    model.TraceStep: "trace_step",
    model.TracedNode: "traced_node",
    model.BytecodeRun: "bytecode_run",
    model.BytecodeStep: "bytecode_step",
    model.BenchCell: "bench_cell",
    model.BenchRound: "bench_round",
    model.LedgerCall: "ledger_call",
    model.LedgerStep: "ledger_step",
    model.LedgerOperator: "ledger_operator",
    model.LedgerGap: "ledger_gap",
    model.Profile: "profile",
    model.ProfileTime: "profile_time",
    model.ProfileOther: "profile_other",
    model.ProfileGap: "profile_gap",
}

MAY_HAVE_KEYS = (model.ConsoleLine, model.Failure, model.Guard, model.GuardCheck, model.Recompile)
"""Rows with the program's own values: keys to other services are left out."""

FIXED_SQL = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE text (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, \
body BLOB NOT NULL,
                   base INTEGER NOT NULL);
CREATE TABLE stack_line (file INTEGER NOT NULL, line INTEGER NOT NULL, stack INTEGER NOT NULL,
                         PRIMARY KEY (file, line, stack)) WITHOUT ROWID;
"""
"""``stack_line`` finds every stack that passes through a source line, so that nodes can be selected
by line. ``base`` is the text with which another one was packed (``session/elsewhere.py``), 0 for
none.
"""

INDEX_SQL = """
CREATE INDEX graph_compilation ON graph(compilation);
CREATE INDEX node_graph ON node(graph, position);
CREATE INDEX node_stack ON node(stack);
CREATE INDEX node_name ON node(name);
CREATE INDEX edge_producer ON edge(producer);
CREATE INDEX published_stage_compilation ON published_stage(compilation);
CREATE INDEX support_report_graph ON support_report(graph);
CREATE INDEX backend_instruction_run ON backend_instruction(run);
CREATE INDEX artifact_compilation ON artifact(compilation, stage, direction);
CREATE INDEX kernel_compilation ON kernel(compilation);
CREATE INDEX kernel_artifact ON kernel(artifact);
CREATE INDEX kernel_output_code ON kernel(output_code, first_line);
CREATE INDEX kernel_call_kernel ON kernel_call(kernel);
CREATE INDEX node_meta_graph ON node_meta(graph);
CREATE INDEX graph_pass_graph ON graph_pass(graph);
CREATE INDEX pass_change_graph ON pass_change(graph);
CREATE INDEX pass_change_node ON pass_change(node);
CREATE INDEX pass_change_name ON pass_change(name);
CREATE INDEX unfused_pair_first ON unfused_pair(first);
CREATE INDEX unfused_pair_second ON unfused_pair(second);
CREATE INDEX kernel_decision_call ON kernel_decision(call);
CREATE INDEX kernel_decision_node ON kernel_decision(node);
CREATE INDEX kernel_build_kernel ON kernel_build(kernel, position);
CREATE INDEX kernel_launch_kernel ON kernel_launch(kernel);
CREATE INDEX link_parent ON link(parent);
CREATE INDEX line_node_node ON line_node(node);
CREATE INDEX line_source_source ON line_source(file, source_line);
CREATE INDEX guard_compilation ON guard(compilation);
CREATE INDEX guard_check_compilation ON guard_check(compilation);
CREATE INDEX span_compilation ON span(compilation);
CREATE INDEX metric_compilation ON metric(compilation);
CREATE INDEX trace_attempt_compilation ON trace_attempt(compilation);
CREATE INDEX traced_call_trace ON traced_call(trace);
CREATE INDEX trace_step_trace ON trace_step(trace);
CREATE INDEX traced_node_trace ON traced_node(trace);
CREATE INDEX traced_node_name ON traced_node(name);
CREATE INDEX bytecode_step_run ON bytecode_step(run);
CREATE INDEX bench_round_cell ON bench_round(cell);
CREATE INDEX profile_time_kernel ON profile_time(kernel);
"""


def index_sql(row_types: Collection[type]) -> dict[str, str]:
    """Return name → statement of the indexes of some tables."""
    tables = {TABLES[row_type] for row_type in row_types}
    return {name: sql for name, table, sql in _indexes() if table in tables}


def _indexes() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each index, its table, and its statement."""
    for sql in INDEX_SQL.strip().splitlines():
        _, _, name, _, columns_of_table = sql.rstrip(";").split(" ", 4)
        yield name, columns_of_table.partition("(")[0], sql.rstrip(";")


_PRIMARY_KEYS: dict[type, str] = {
    model.Edge: "consumer, producer",
    model.Link: "child, parent",
    model.LeftOut: "node",
    model.WithoutKernel: "node",
    model.LineNode: "artifact, line, node, call",
    model.LineSource: "artifact, line, file, source_line",
    model.NodeSupport: "report, node",
    model.Decomposed: "node",
}
"""Class of rows → the key by which its table is stored sorted: tables of pairs have no id of their
own.
"""


class SchemaColumn(NamedTuple):
    name: str
    sql_type: str
    is_json: bool


@cache
def columns(row_type: type) -> tuple[SchemaColumn, ...]:
    return tuple(_column(field) for field in dataclasses.fields(row_type))


def _column(field: dataclasses.Field[object]) -> SchemaColumn:
    declared = str(field.type)
    is_json = declared.startswith(("tuple", "dict"))
    sql_type = {
        "int": "INTEGER",
        "bool": "INTEGER",
        "float": "REAL",
        "RepeatedText": "",
        "RepeatedName": "",
    }.get(declared, "TEXT")
    return SchemaColumn(field.name, sql_type, is_json)


_PACKS = """CREATE TABLE {table} (id INTEGER PRIMARY KEY, "{key}" INTEGER NOT NULL, \
count INTEGER NOT NULL, packed INTEGER NOT NULL);
"""
"""Table of packs: how many rows each has, and the ``text`` that they are."""


def create_sql() -> str:
    statements = [FIXED_SQL]
    for row_type, table in TABLES.items():
        if row_type in PACKED:
            statements.append(_PACKS.format(table=table, key=PACKED[row_type]))
            continue
        names = ", ".join(f'"{c.name}" {c.sql_type}' for c in columns(row_type))
        key = _PRIMARY_KEYS.get(row_type)
        if key:
            statements.append(
                f"CREATE TABLE {table} ({names}, PRIMARY KEY ({key})) WITHOUT ROWID;\n"
            )
        else:
            names = names.replace('"id" INTEGER', '"id" INTEGER PRIMARY KEY', 1)
            statements.append(f"CREATE TABLE {table} ({names});\n")
    return "".join(statements) + INDEX_SQL


def has_id(row_type: type) -> bool:
    return row_type not in _PRIMARY_KEYS and row_type not in PACKED


@cache
def read_order(row_type: type[Any]) -> str:
    """Return the clause that gives rows in the order they were written."""
    return " ORDER BY id" if has_id(row_type) else ""


@cache
def insert_sql(row_type: type) -> str:
    marks = ", ".join("?" * len(columns(row_type)))
    verb = "INSERT" if has_id(row_type) else "INSERT OR IGNORE"
    return f"{verb} INTO {TABLES[row_type]} VALUES ({marks})"


@cache
def encoder(row_type: type) -> Callable[[Any], list[object]]:
    """Return a function that turns one row into its SQL values; an ``id`` of 0 becomes NULL, so
    that SQLite assigns one.
    """
    sql_columns = columns(row_type)
    values_of = operator.attrgetter(*(c.name for c in sql_columns))  # one call for a whole row
    texts = [i for i, c in enumerate(sql_columns) if c.sql_type in ("TEXT", "") and not c.is_json]
    jsons = []
    for i, field in enumerate(dataclasses.fields(row_type)):
        if sql_columns[i].is_json:
            jsons.append((i, _json_of(field)))
    has_number = sql_columns[0].name == "id"
    may_have_keys = row_type in MAY_HAVE_KEYS

    def encode(row: Any) -> list[object]:
        values: list[Any] = list(values_of(row))
        for i in texts:
            value = values[i]
            # Nearly all are short and ASCII. A call for each would double the time.
            if isinstance(value, str) and not (len(value) <= MAX_FIELD and value.isascii()):
                if len(value) > MAX_FIELD:
                    value = shortened(value, MAX_FIELD)
                values[i] = storable(value)
            if may_have_keys and isinstance(value, str):
                values[i] = without_known_keys(values[i])
        for i, to_json in jsons:
            if values[i] is not None:
                values[i] = to_json(values[i])
        if has_number:
            values[0] = values[0] or None
        return values

    return encode


@cache
def columns_encoder(
    row_type: type,
) -> Callable[[Sequence[Sequence[Any]]], list[Sequence[object]]]:
    """Return a function that turns the columns of many rows into their SQL values, as ``encoder``
    does for one row: a column at a time, which takes half the time.
    """
    sql_columns = columns(row_type)
    texts = [i for i, c in enumerate(sql_columns) if c.sql_type in ("TEXT", "") and not c.is_json]
    jsons = []
    for i, field in enumerate(dataclasses.fields(row_type)):
        if sql_columns[i].is_json:
            jsons.append((i, _json_of(field)))
    has_number = sql_columns[0].name == "id"
    may_have_keys = row_type in MAY_HAVE_KEYS

    def encode_columns(rows_by_column: Sequence[Sequence[Any]]) -> list[Sequence[object]]:
        encoded: list[Any] = list(rows_by_column)
        for i in texts:
            if not _are_short_and_ascii(encoded[i]):
                encoded[i] = [*map(_storable_field, encoded[i])]
            if may_have_keys and _have_keys(encoded[i]):
                encoded[i] = [*map(_without_keys, encoded[i])]
        for i, to_json in jsons:
            encoded[i] = _json_of_column(encoded[i], to_json)
        if has_number:
            encoded[0] = [number or None for number in encoded[0]]
        return encoded

    return encode_columns


def _json_of_column(column: Sequence[Any], to_json: Callable[[Any], str]) -> Sequence[str | None]:
    """Return the values of a column as JSON. Equal ones are encoded once, if they can be compared:
    a graph has few shapes.
    """
    try:
        known = {value: to_json(value) for value in set(column) if value is not None}
    except TypeError:
        return [None if value is None else to_json(value) for value in column]
    return [known.get(value) for value in column]


def columns_of(row_type: type, rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the values of many rows, a sequence for each field."""
    values_of = operator.attrgetter(*(c.name for c in columns(row_type)))
    return list(zip(*map(values_of, rows), strict=True))


def _have_keys(column: Sequence[object]) -> bool:
    """Return whether a column has a key of a well-known form: one look at each text in it."""
    texts = {value for value in column if isinstance(value, str)}
    whole = "\n".join(texts)
    return without_known_keys(whole) != whole


def _without_keys(value: object) -> object:
    return without_known_keys(value) if isinstance(value, str) else value


def _are_short_and_ascii(column: Sequence[Any]) -> bool:
    """Return whether all values are texts that are stored as they are."""
    try:
        whole = "".join(column)
    except TypeError:
        return False
    return whole.isascii() and max(map(len, column)) <= MAX_FIELD


def _storable_field(value: object) -> object:
    if not isinstance(value, str):
        return value
    return storable(shortened(value, MAX_FIELD))


def _json_of(field: dataclasses.Field[object]) -> Callable[[Any], str]:
    """Return a function that encodes a field's values as JSON. Shapes and strides repeat a few
    values.
    """
    if str(field.type).startswith("tuple[str, ...]"):
        return _texts_to_json
    return _storable_json


@cache
def repeated_columns(row_type: type[Any]) -> dict[int, int]:
    """Return position → length for the columns of shared texts: a longer text is stored as the
    number of a row of ``text``.
    """
    fields = enumerate(dataclasses.fields(row_type))
    return {
        i: KEPT_IN_ROW[str(field.type)] for i, field in fields if str(field.type) in KEPT_IN_ROW
    }


KEPT_IN_ROW = {"RepeatedText": 40, "RepeatedName": 12}
"""Maximum number of characters that are stored in the row itself: a row of ``text`` takes 100
bytes, which pays for a text in several rows, or a name in hundreds.
"""


def storable(text: str) -> str:
    """Return a text that SQLite takes, which is UTF-8 only: the bytes of a file name that is not
    (lone surrogates) become ``\\udc80``.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


@cache
def decoder(row_type: type[Any]) -> Callable[[list[tuple[Any, ...]]], list[Any]]:
    """Return a function that turns the SQL values of a row into the dataclass. It raises ValueError
    for values that the fields cannot have.
    """
    return rows_maker(row_type)


_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
"""A shared encoder: ``json.dumps`` makes one for each value, which takes longer than encoding."""


def _storable_json(value: object) -> str:
    return storable(_to_short_json(value))


_known_json = lru_cache(maxsize=4_096)(_storable_json)


def _texts_to_json(value: object) -> str:
    if type(value) is tuple:
        return _known_json(value)
    return _storable_json(value)


def _to_short_json(value: object) -> str:
    """Return the value as JSON, with every text in it shortened where the whole is long."""
    whole = _to_json(value)
    if len(whole) <= MAX_FIELD:
        return whole
    return _to_json(bounded(value))
