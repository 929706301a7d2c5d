"""The tree of guards is shown without the empty lines that torch prints around it, and stays in the
log nevertheless.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.opened import TextsOfLog
from fx_explorer.readers.torch_trace.records import NOWHERE, Damage, Record, records
from fx_explorer.session import SessionReader
from fx_explorer.session.elsewhere import BASE, register_texts_elsewhere

TREE = "TREE_GUARD_MANAGER:\n+- RootGuardManager\n" + "| +- LENGTH_CHECK: len(L['ä']) == 1\n" * 20


def log_of(text: str, prefix: str = "\t") -> bytes:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    about = {"dynamo_cpp_guards_str": {}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    line = json.dumps({**about, "has_payload": digest})
    below = "\n".join(f"{prefix}{line}" for line in text.split("\n"))
    return f"V1130 18:26:14.714000 1 torch/_dynamo/guards.py:1] {line}\n{below}\n".encode()


def read(log: bytes) -> Record:
    (record,) = records([log], Damage())
    assert record is not None
    return record


@pytest.mark.parametrize("before", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("after", ["", "\n", "\n\n"])
def test_the_place_of_a_stripped_text_has_that_text(
    tmp_path: Path, before: str, after: str
) -> None:
    text = f"{before}{TREE.strip()}{after}"
    log = tmp_path / "guards.log"
    log.write_bytes(log_of("first") + log_of(text))
    _, record = records([log.read_bytes()], Damage())
    assert record is not None
    stripped = record.stripped()
    assert stripped.payload == TREE.strip()
    assert TextsOfLog(log).text(stripped.place) == TREE.strip()


def test_what_is_not_as_torch_writes_it_has_no_place() -> None:
    record = read(log_of(f"\n{TREE}", prefix="[rank0]:\t"))
    assert record.stripped().place is NOWHERE
    assert record.stripped().payload == TREE.strip("\n")
    assert read(log_of("\n\n")).stripped().place is NOWHERE


def test_the_tree_stays_in_the_log(tmp_path: Path) -> None:
    log, session = tmp_path / "guards.log", tmp_path / "guards.fxs"
    log.write_bytes(log_of(f"\n{TREE}"))
    read_log(log, session, leave_texts=True)
    register_texts_elsewhere(session, TextsOfLog(log))
    with SessionReader(session) as reader:
        (tree,) = reader.rows(model.Artifact, kind="guard_tree")
        assert reader.text(tree.text) == TREE.strip("\n")
    with sqlite3.connect(session) as database:
        bases = database.execute("SELECT base FROM text WHERE id=?", (tree.text,)).fetchall()
    assert bases == [(BASE,)]


def test_a_log_that_is_decoded_at_once_has_all_indexes(tmp_path: Path) -> None:
    log = tmp_path / "guards.log"
    log.write_bytes(log_of(TREE))
    read_log(log, tmp_path / "once.fxs")
    with SessionReader(tmp_path / "once.fxs") as reader:
        names = reader.column("SELECT name FROM sqlite_master WHERE type='index' AND sql NOT NULL")
    assert {"node_graph", "node_stack", "node_name", "edge_producer", "link_parent"} <= set(names)
