"""This module has argparse types for values of options as the user types them; an invalid value is
refused with a message.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
from typing import Any


def option(text: str) -> tuple[str, Any]:
    """Parse ``K=V`` with a Python literal or JSON as value; anything else is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not K=V, for example max_fusion_size=8")
    for read in (ast.literal_eval, json.loads):
        try:
            literal = read(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        # The request is JSON, which holds no bytes and no sets.
        if isinstance(literal, int | float | str | list | tuple | dict | None):
            return name, literal
        return name, value
    return name, {"true": True, "false": False, "none": None}.get(value.lower(), value)


def seconds(text: str) -> float:
    try:
        number = float(text.removesuffix("s"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def words(text: str) -> tuple[str, ...]:
    """Parse ``A,B``, each once."""
    found = tuple(dict.fromkeys(filter(None, (word.strip() for word in text.split(",")))))
    if not found:
        raise argparse.ArgumentTypeError("names are missing, for example eager,inductor")
    return found


def counts(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(count, words(text))))
