"""Find the guard filter that a request names, and refuse one that does not answer as torch asks.

torch takes a ``guard_filter_fn`` among torch.compile's options for every backend, and takes it out
before the backend sees them (``compile``, torch/__init__.py). A request holds its name.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import GuardFilter, known_filters, require
from fx_explorer.errors import TargetError
from fx_explorer.model import GUARD_FILTER
from fx_explorer.program.file_functions import function_of_file, with_line


def with_guard_filter(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of torch.compile with the filter in the place of its name. A mode
    becomes the options that it stands for, because torch takes no options beside a mode. Raises
    TargetError for a filter that is not there.
    """
    options = arguments.get("options") or {}
    if GUARD_FILTER not in options:
        return arguments
    mode = arguments.get("mode", "")
    if mode and arguments.get("backend") != "inductor":
        raise TargetError(
            f"{GUARD_FILTER} and --mode {mode} go together with the backend inductor "
            "only; leave one of them out"
        )
    if mode:
        entries = require("torch._inductor", "list_mode_options")(mode, arguments.get("dynamic"))
    else:
        entries = {}
    given = {**entries, **options, GUARD_FILTER: guard_filter(options[GUARD_FILTER])}
    return {
        **{name: value for name, value in arguments.items() if name != "mode"},
        "options": given,
    }


def guard_filter(name: object) -> GuardFilter:
    """Return one of torch's own filters by its name in ``torch.compiler``, or the function of
    ``file.py:function``. Raises TargetError when there is none.
    """
    known = known_filters()
    if not isinstance(name, str):
        raise TargetError(f"{GUARD_FILTER}={name!r} is no name of a filter. {_there_are(known)}")
    if name in known:
        return _checked(known[name], name)
    function = function_of_file(name, "guard filter")
    if function is None:
        raise TargetError(
            f"there is no guard filter {name!r}{_near(name, known)} {_there_are(known)}"
        )
    return _checked(function, name)


def _checked(function: Callable[..., Any], name: str) -> GuardFilter:
    """Return the filter, which raises TargetError where it raises or its answer is none. Dynamo
    makes an error of its own of that, whose context it is (``told_by_us``).
    """

    @functools.wraps(function)
    def guard_filter(entries: Sequence[Any]) -> Sequence[bool]:
        try:
            answer = function(entries)
        except (Exception, SystemExit) as error:
            raise TargetError(
                f"the guard filter {name} raised {with_line(error, Path(name.rpartition(':')[0]))}"
            ) from error
        kept = list(answer) if isinstance(answer, Iterable) else None
        if kept is None or len(kept) != len(entries):
            if kept is None:
                gave = type(answer).__name__
            else:
                gave = f"{len(kept)} answer{'s' if len(kept) != 1 else ''}"
            raise TargetError(
                f"the guard filter {name} gave {gave} for {len(entries)} guards; "
                "return a list with True (keep) or False (drop) for each guard, in their order"
            )
        others = [one for one in kept if type(one) is not bool]
        if others:
            raise TargetError(
                f"the guard filter {name} answered {others[0]!r}; torch takes True (keep) "
                "or False (drop) only"
            )
        return kept

    guard_filter.__qualname__ = name
    return guard_filter


def _near(name: str, known: dict[str, GuardFilter]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else "."


def _there_are(known: dict[str, GuardFilter]) -> str:
    return (
        f"torch {torch.__version__} has: {', '.join(sorted(known))}; one of yours is "
        "FILE.py:FUNCTION"
    )
