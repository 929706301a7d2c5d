"""What changed about the keys of a dict before a recompile: which are gone, and which are new.

torch asks for the number of entries (``len(L['d']) != 2``, for ``**kwargs`` that are handed on
``len(L['kwargs']) == 2``) and for each key (``list(dict.keys(L['d']))[1] == 'b'``, ``DICT_KEYS_MATCH``
and ``MAPPING_KEYS_CHECK`` in torch/_dynamo/guards.py): the one that fails first names at most one of them.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable, Iterable
from typing import Any

from fx_explorer.capture.recording.hook_notes import GuardedValue
from fx_explorer.torch_texts import bounded

MOST_NAMED = 8

_OF_A_DICT = re.compile(
    r"^(?:len\((?P<counted>[LG]\[.*)\) [!=]= \d+|.*?list\(dict\.keys\((?P<keyed>[LG]\[.*?\])\)\)"
    r"|list\((?P<mapping>[LG]\[.*\])\.keys\(\)\) == )"
)

_KEY = re.compile(r"^list\(dict\.keys\((?P<source>.+)\)\)\[(?P<position>\d+)\] == (?P<key>.+)$")

_MAPPING = re.compile(r"^list\((?P<source>.+)\.keys\(\)\) == (?P<keys>\[.*\])")

_WRITTEN_KEY = r"'[^']*'|\"[^\"]*\"|-?\d+"


def dict_of(part: str) -> str:
    """Return ``L['d']`` for a guard about its keys; empty for another guard."""
    found = _OF_A_DICT.match(part)
    return next((source for source in found.groups() if source), "") if found else ""


def keys_change(
    source: str, value: object, guards: Iterable[str], describe: Callable[[object], str]
) -> GuardedValue:
    """Return which keys changed; ``guards`` are all that the compiled code asked for. Old and new
    are the keys that only one side has, or all of them in their order where both have the same;
    empty for what is no dict, and where it is not known which keys there were.
    """
    new, asked = _keys(value), list(guards)
    old = _keys_then(source, asked) or _keys_looked_at(source, asked)
    if new is None:
        return GuardedValue(source)
    if old is None:
        return GuardedValue(source)
    now = [describe(key) for key in new]
    then = [describe(key) for key in old]
    gone, added = [key for key in then if key not in now], [key for key in now if key not in then]
    if gone or added:
        return GuardedValue(source, _listed(gone), _listed(added))
    return GuardedValue(source, _listed(then), _listed(now))


def _keys(value: object) -> list[Any] | None:
    """Return the keys without running code of the program's, as a class of its own may have; None
    for what is no plain dict.
    """
    if isinstance(value, types.MappingProxyType):
        return list(value)
    return list(dict.keys(value)) if isinstance(value, dict) else None


def _keys_then(source: str, guards: Iterable[str]) -> list[object] | None:
    """Return the keys that the guards asked for; None where torch guarded none by its value: the
    keys may be objects.
    """
    found: dict[int, object] = {}
    for code in guards:
        key, mapping = _KEY.match(bounded(code)), _MAPPING.match(bounded(code))
        if key and key["source"] == source:
            found[int(key["position"])] = _literal(key["key"])
        elif mapping and mapping["source"] == source:
            return list(_literal(mapping["keys"]))
    return [found[position] for position in sorted(found)] if found else None


def _keys_looked_at(source: str, guards: Iterable[str]) -> list[object] | None:
    """Return the keys whose values the guards look at; None where these are not as many as there were keys: torch
    asks for nothing of a value that the code does not use.
    """
    count, keys = 0, dict[object, None]()
    for code in guards:
        counted = re.match(rf"len\({re.escape(source)}\) [!=]= (\d+)$", code)
        count = int(counted[1]) if counted else count
        keys |= dict.fromkeys(
            map(_literal, re.findall(rf"{re.escape(source)}\[({_WRITTEN_KEY})\]", code))
        )
    return list(keys) if len(keys) == count else None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _listed(keys: list[str]) -> str:
    more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    return ", ".join(keys[:MOST_NAMED]) + more
