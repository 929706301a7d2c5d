"""Names of functions, as the user would say them: of a rest that torch made a function of its own,
and of a lambda.
"""

from __future__ import annotations

import re

from fx_explorer import model
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts import LONGEST_LINE

RESUME = "torch_dynamo_resume_in_"

_RESUME_AT = re.compile(rf"{RESUME}\w*?_at_(?P<line>\d+)$")

LAMBDA = "<lambda>"


def plain_function(function: str) -> str:
    """Return ``rest of forward after line 12`` for ``torch_dynamo_resume_in_forward_at_12``, and
    ``a lambda in Net.__init__`` for ``Net.__init__.<locals>.<lambda>``.
    """
    line = resumed_at(function)
    own = function_resumed(function)
    return f"rest of {own} after line {line}" if line else own


def function_resumed(function: str) -> str:
    """Return the function that a resume function is a part of, and any other function itself."""
    prefix, _, rest = function.rpartition(RESUME)
    name, at, _ = rest.rpartition("_at_")
    is_resumed = at and (prefix or function.startswith(RESUME))
    return _plain_lambda(f"{prefix}{name}" if is_resumed else function)


_DECORATED = re.compile(r"(?P<inner>[^\s()]+) \([^()]*\)$")


def called_function(function: str) -> str:
    """Return the function as it is called in a sentence: ``Net.forward()``, also for one that a
    decorator was put around (``Net.forward (no_grad)``); what is no function of its own has no
    brackets.
    """
    decorated = _DECORATED.match(function)
    told = plain_function(decorated["inner"] if decorated else function)
    return told if " " in told else f"{told}()"


GENERATED = "__create_fn__.<locals>."
"""Where the methods are defined that ``dataclasses`` writes (CPython's Lib/dataclasses.py,
``_create_fn``).
"""


def _plain_lambda(function: str) -> str:
    if function.startswith(GENERATED):
        return f"the {function.removeprefix(GENERATED)} of a dataclass"
    around, _, own = function.rpartition(".")
    # torch writes ``_lambda_`` where the name has to be an identifier.
    if own not in (LAMBDA, "_lambda_"):
        return function
    around = around.removesuffix(".<locals>")
    return f"a lambda in {around}" if around else "a lambda"


def function_of(compilation: model.Compilation) -> str:
    """Return what was compiled in the user's words. A lambda has no name, so its place tells it
    from others.
    """
    told = plain_function(compilation.function)
    if told.startswith("a lambda"):
        return f"{told} at {in_file(compilation.file, compilation.line)}"
    return told


def is_method(function: str) -> bool:
    """Return whether a qualified name is that of a method: ``Net.forward``, not ``f.<locals>.g``."""
    owner = function.partition(" (")[0].rpartition(".")[0].rpartition(".")[2]
    return owner not in ("", "<locals>")


def resumed_at(function: str) -> int:
    """Return the line at which a rest of a function continues; 0 for any other function."""
    found = _RESUME_AT.search(function[-LONGEST_LINE:])
    return int(found["line"]) if found else 0
