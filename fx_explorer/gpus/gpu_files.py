"""A GPU's TOML file → Gpu.

``h100.toml`` beside this file shows the form: every number is ``{ value, source }``, and a source
is a text or the name of one under ``[sources]``.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fx_explorer.errors import UsageError
from fx_explorer.model.gpu import NUMBERS, Gpu
from fx_explorer.outside_file import read_toml, shown_message, shown_path, shown_value

HERE = Path(__file__).parent
WORDS = ("title", "device_name", "vendor", "arch", "capability")
SHAPE = 'each number is { value = …, source = "where it is from" }'


def known_gpus() -> tuple[str, ...]:
    """Return the names for ``--gpu``, in alphabetical order."""
    return tuple(sorted(path.stem for path in HERE.glob("*.toml")))


def find_gpu(name: str) -> Gpu:
    """Return the GPU of that name, or of the TOML file at that path. Raises UsageError."""
    if name.lower() in known_gpus():
        return read_gpu(HERE / f"{name.lower()}.toml")
    path = Path(name)
    if path.suffix == ".toml" or os.path.isfile(path):
        return read_gpu(path)
    raise UsageError(
        f"there is no GPU called {shown_value(name)}{_did_you_mean(name)}; there are "
        f"{', '.join(known_gpus())}. Any other one can be described in a TOML file: --gpu "
        "path/to/it.toml (docs/reference/virtual-gpu.md says how)."
    )


def _did_you_mean(name: str) -> str:
    """Return a suggestion: ``(did you mean h100?)`` for ``H-100`` and ``NVIDIA H100``; empty for
    another card's name.
    """
    words = _name_parts(name)
    for known_name in known_gpus():
        if "".join(words) == known_name or words == _name_parts(find_gpu(known_name).device_name):
            return f" (did you mean {known_name}?)"
    return ""


@functools.cache
def gpu_of_device(device_name: str) -> Gpu | None:
    """Return the GPU for a real card, by ``torch.cuda.get_device_name()``; None if it is not
    described here.
    """
    for gpu in map(find_gpu, known_gpus()):
        if _name_parts(gpu.device_name) == _name_parts(device_name):
            return gpu
    return None


def _name_parts(device_name: str) -> tuple[str, ...]:
    """Return the words of a device's name. Drivers write ``NVIDIA A100-SXM4-80GB`` and
    ``A100-SXM4-80GB``.
    """
    words = re.findall(r"[a-z0-9]+", device_name.casefold())
    return tuple(word for word in words if word not in ("nvidia", "amd"))


def read_gpu(path: Path) -> Gpu:
    """Read a GPU's file. Raises UsageError, with the name of the invalid entry."""
    try:
        entries = read_toml(path)
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no file {shown_path(path)} that describes a GPU; "
            f"by name there are {', '.join(known_gpus())}"
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{shown_path(path)} cannot be read: {reason}") from error
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    try:
        return parse_gpu(path.stem, entries)
    except (KeyError, TypeError, ValueError) as error:
        cause = error.args[0] if error.args else error
        message = shown_message(cause)
        raise UsageError(f"{path} does not describe a GPU: {message}") from error


def parse_gpu(name: str, entries: dict[str, Any]) -> Gpu:
    """Make a GPU of the entries of its file. Raises KeyError, TypeError or ValueError."""
    texts = _table(entries, "sources") if "sources" in entries else {}
    fields = {word: _required(entries, word) for word in WORDS}
    if not isinstance(fields["capability"], list):
        raise TypeError(
            f"capability cannot be {shown_value(fields['capability'])}: it is two "
            "numbers, such as [9, 0]"
        )
    fields["name"] = _plain_name(entries.get("name", name))
    sources: dict[str, str] = {}
    for number in NUMBERS:
        fields[number], sources[number] = _sourced(number, _required(entries, number), texts)
    fields["peak_flops"] = peaks = {}
    for kind, entry in _table(entries, "peak_flops").items():
        label = f"peak_flops.{kind}"
        value, sources[label] = _sourced(label, entry, texts)
        peaks[kind] = float(value)
    if unknown := set(entries) - {*WORDS, *NUMBERS, "name", "peak_flops", "sources"}:
        raise ValueError(
            f"{shown_path(', '.join(sorted(unknown)))} is not known; known are "
            f"{', '.join(_known())}"
        )
    return Gpu.from_json({**fields, "sources": sources})


def _known() -> Iterator[str]:
    yield from ("name", *WORDS, *NUMBERS, "peak_flops", "sources")


def _plain_name(name: object) -> object:
    """Return the name if it is a plain word, because a directory is named after it. Raises
    ValueError for a path. A value of another type is returned unchanged, since the check of types
    refuses it.
    """
    if isinstance(name, str) and not re.fullmatch(r"\w[\w.+-]*", name):
        raise ValueError(
            f"name cannot be {shown_value(name)}: letters, digits, '.', '+', '-' and '_' only"
        )
    return name


def _required(entries: dict[str, Any], name: str) -> Any:
    if name not in entries:
        raise KeyError(f"{name} is missing")
    return entries[name]


def _table(entries: dict[str, Any], name: str) -> dict[str, Any]:
    table = _required(entries, name)
    if not isinstance(table, dict):
        raise TypeError(f"{name} is no table: write it as [{name}]")
    return table


def _sourced(name: str, entry: Any, texts: dict[str, str]) -> tuple[int | float, str]:
    if isinstance(entry, dict):
        value, source = (entry.get("value"), entry.get("source"))
    else:
        value, source = (None, None)
    if not isinstance(value, int | float) or not isinstance(source, str):
        raise TypeError(f"{name} cannot be {shown_value(entry)}: {SHAPE}")
    if isinstance(value, int) and value > sys.float_info.max:
        raise ValueError(f"{name} cannot be {shown_value(value)}: no GPU has that many")
    return value, texts.get(source, source)
