"""What the entries of ``meta`` look like: those that are read by name are checked here, like the
fields of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx_explorer.model import CaptureRequest, Gpu, Outcome
from fx_explorer.model.checked_json import checked


def check_meta(key: str, value: Any) -> Any:
    """Return ``value`` as it is. Raises ValueError when it is not what belongs under this key."""
    check = _CHECKS.get(key)
    try:
        if check and value is not None and not check(value):
            raise ValueError(f"{key} of the session cannot be {str(value)[:80]!r}")
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{key} of the session cannot be read: {str(error)[:200]}") from error
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e12


def _is_outcome(value: Any) -> bool:
    return abs(checked(Outcome.from_json(value)).exit_code) < 1 << 31


def _is_target(value: Any) -> bool:
    texts = ("name", "kind", "file", "object")
    return isinstance(value, dict) and all(isinstance(value.get(key, ""), str) for key in texts)


def _is_environment(value: Any) -> bool:
    return isinstance(value, dict)


def _is_request(value: Any) -> bool:
    """Return whether it is a request: the fields that we know have their types. A file that was
    not written by us may have others.
    """
    if not isinstance(value, dict):
        return False
    known = {name: value[name] for name in CaptureRequest.__dataclass_fields__ if name in value}
    gpu = Gpu.from_json(known["gpu"]) if known.get("gpu") else None
    lists = {name: tuple(known.get(name, ())) for name in ("arguments", "front_ends")}
    checked(CaptureRequest(**{"target": "", "session": "", **known, **lists, "gpu": gpu}))
    return True


def _is_bench(value: Any) -> bool:
    texts = (value.get("state", ""), value.get("doing", ""))
    return (
        isinstance(value.get("machine", {}), dict)
        and all(isinstance(text, str) for text in texts)
        and isinstance(value.get("budget_s") or 0, int | float)
    )


def _is_log(value: Any) -> bool:
    named = (
        value.get(name, 0)
        for name in (
            "records",
            "wrong_hashes",
            "unread_graph_lines",
            "is_cut_off",
            "is_followed",
            "lost_its_name",
        )
    )
    counts = (*named, *value.get("unknown", {}).values())
    ranks = value.get("ranks", [])
    is_of_ranks = isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks)
    return (
        all(isinstance(count, int) for count in counts)
        and isinstance(value.get("damaged_lines", []), list)
        and is_of_ranks
    )


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "fx_explorer": _is_text,
    "started": _is_text,
    "progress": _is_text,
    "finished": _is_duration,
    "outcome": _is_outcome,
    "target": _is_target,
    "environment": _is_environment,
    "request": _is_request,
    "left_out": _are_texts,
    "built_to_save": _are_texts,
    "process": lambda value: isinstance(value, dict) and isinstance(value.get("pid", 0), int),
    "build": lambda value: isinstance(value, bool),
    "raised_inspecting": _is_text,
    "virtual_gpu": lambda value: isinstance(value, dict),
    "virtual_gpu_choices": lambda value: isinstance(value, list | dict),
    "counters": lambda value: isinstance(value, dict),
    "bench": _is_bench,
    "log": _is_log,
    "skipped_records": lambda value: isinstance(value, int),
}
