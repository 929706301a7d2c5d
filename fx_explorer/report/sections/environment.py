"""What was captured, and where: the environment and the target of the JSON report."""

from __future__ import annotations

from fx_explorer.session import SessionReader

Json = dict[str, object]


def environment(reader: SessionReader) -> Json:
    """Return the environment as recorded. ``gpu`` is the virtual one the capture was made for, null
    without one; ``gpu_present`` is the machine's own.
    """
    # A session that was cut off before the program began has no environment.
    recorded: Json = dict(reader.meta("environment") or {})
    present, virtual = recorded.pop("gpu", None), recorded.pop("virtual_gpu", None)
    told = reader.meta("virtual_gpu")
    if told:
        emulated = {
            "virtual_gpu": {name: told[name] for name in ("feeding", "reason", "questions")}
            | {name: told.get(name, []) for name in ("placeholders", "unsaved")}
            | _advice(told)
        }
    else:
        emulated = {}
    return {**recorded, "gpu": virtual, "gpu_present": present, **emulated}


def _advice(told: Json) -> Json:
    """Return what makes the code that of the GPU, where the program asks about the device."""
    return {"advice": "--no-weights"} if told["questions"] else {}


def target(reader: SessionReader) -> Json:
    """Return what was captured, by the name that the user typed where the worker did not come to
    know it.
    """
    recorded: Json = dict(reader.meta("target") or {})
    request = reader.meta("request") or {}
    return {
        "name": request.get("target", ""),
        **recorded,
        "build": bool(reader.meta("build", False)),
    }
