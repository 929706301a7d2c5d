"""This module says how often the program called what each compilation made, and which guard of an
earlier version a call failed, so that it went to another one.
"""

from __future__ import annotations

import json
import re

from fx_explorer import model
from fx_explorer.analysis.lineage import root_name
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.model import SECOND_CALL, STANCE
from fx_explorer.model.rows.observation import CALLS_BEFORE
from fx_explorer.session import SessionReader, answered_once


@answered_once
def calls_of_compilations(reader: SessionReader) -> dict[int, int]:
    """Return compilation → how often the program called its graph in the forward; compilations
    whose calls were not counted are left out.
    """
    calls: dict[int, int] = {}
    for entry in reader.rows(model.BackendEntry):
        if entry.direction != "backward":
            calls[entry.compilation] = max(calls.get(entry.compilation, 0), entry.calls)
    return calls


_PLAIN_NAME = re.compile(r"\d+/\d+")
"""Matches the name of a compilation that torch did not number again after a reset."""


@answered_once
def call_numbers(reader: SessionReader) -> dict[int, int]:
    """Return compilation → the number, from 1, of the function's call that made it; without those
    of which it is not known: a call that ran in eager mode is not counted.
    """
    numbers = {}
    stances = {row.value.strip('"') for row in reader.rows(model.OptionInForce, name=STANCE)}
    is_first_call = not stances.intersection(SECOND_CALL) and not is_log(reader)
    for row in reader.rows(model.Compilation, variant_of=""):
        is_first = row.recompile == 0 and _PLAIN_NAME.fullmatch(row.name) is not None
        if is_first and is_first_call:
            numbers[row.id] = 1
    for metric in reader.rows(model.Metric, name=CALLS_BEFORE):
        calls = json.loads(metric.value)
        if isinstance(calls, int):
            numbers[metric.compilation] = calls + 1
    return numbers


@answered_once
def failed_guards_of(reader: SessionReader) -> dict[int, list[str]]:
    """Return compilation → the guards of earlier versions of the function that a call failed, each
    as ``0/0: guard``. Dynamo tells it of the call for which it compiled the function again; later
    calls that come to this version fail those guards as well, or come to it first.
    """
    failed: dict[int, list[str]] = {}
    for row in reader.rows(model.Recompile):
        text = f"{root_name(row.of)}: {row.guard or row.reason}"
        guards = failed.setdefault(row.compilation, [])
        if text not in guards:
            guards.append(text)
    return failed
