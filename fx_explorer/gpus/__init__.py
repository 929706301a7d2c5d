"""This package has the GPUs for which code can be generated without having them: one TOML file
each, every number with its source. It also finds the GPU on which a session was recorded: one of
those, or one made from the properties that torch read from the device.

``h100.toml`` beside this file shows the form: every number is ``{ value, source }``, and a source
is a text or the name of one under ``[sources]``.

``torch.cuda.get_device_properties()`` tells sizes, counts and clocks. What it does not tell are
limits of the architecture (``Limits`` below), and peak FLOP/s, which nobody reads off a device.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer.errors import UsageError
from fx_explorer.model.gpu import NUMBERS, Gpu, Vendor
from fx_explorer.outside_file import read_toml, shown_message, shown_path, shown_value
from fx_explorer.plugin_loading import PluginFault, attempt, plugins_of

__all__ = ["GpuFile", "find_gpu", "gpu_like", "gpu_of_device", "known_gpus"]


HERE = Path(__file__).parent
WORDS = ("title", "device_name", "vendor", "arch", "capability")
SHAPE = 'each number is { value = …, source = "where it is from" }'


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFile:
    """Describes a GPU for ``--gpu``: what a plug-in of the group ``fx_explorer.gpus`` offers. The
    name of the entry point is that of the GPU.
    """

    interface: int
    file: Path
    """Its TOML file, in the form that docs/reference/virtual-gpu.md describes."""


def own_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that are described here, in alphabetical order."""
    return tuple(sorted(path.stem for path in HERE.glob("*.toml")))


def known_gpus() -> tuple[str, ...]:
    """Return the names for ``--gpu``, in alphabetical order, with those of plug-ins."""
    return tuple(sorted({*own_gpus(), *_gpus_of_plugins()}))


def _gpus_of_plugins() -> dict[str, Gpu]:
    """Return the GPUs that plug-ins describe, by name. One whose file cannot be read is told."""
    gpus = {}
    for plugin in plugins_of("gpus", GpuFile, own_gpus()):
        gpu = attempt(plugin.installed, functools.partial(_named_gpu, plugin.name, plugin.offer))
        if not isinstance(gpu, PluginFault):
            gpus[plugin.name] = gpu
    return gpus


def _named_gpu(name: str, offer: GpuFile) -> Gpu:
    gpu = read_gpu(Path(offer.file))
    if gpu.name != name:
        raise ValueError(f"{offer.file} describes {gpu.name}, and must have that name")
    return gpu


def find_gpu(name: str) -> Gpu:
    """Return the GPU of that name, or of the TOML file at that path. Raises UsageError."""
    if name.lower() in own_gpus():
        return read_gpu(HERE / f"{name.lower()}.toml")
    path = Path(name)
    is_file = path.suffix == ".toml" or os.path.isfile(path)
    if not is_file and (gpu := _gpus_of_plugins().get(name.lower())):
        return gpu
    if is_file:
        return read_gpu(path)
    raise UsageError(
        f"there is no GPU called {shown_value(name)}{_did_you_mean(name)}; there are "
        f"{', '.join(known_gpus())}. Describe another GPU in a TOML file: --gpu path/to/it.toml "
        "(docs/reference/virtual-gpu.md says how)."
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
    for gpu in _described_gpus():
        if _name_parts(gpu.device_name) == _name_parts(device_name):
            return gpu
    return None


def _described_gpus() -> Iterator[Gpu]:
    """Yield the GPUs that are described here, then those of plug-ins."""
    yield from map(find_gpu, own_gpus())
    yield from _gpus_of_plugins().values()


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
            f"there is no GPU file {shown_path(path)}; the known names are {', '.join(own_gpus())}"
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
            f"{shown_path(', '.join(sorted(unknown)))} is not a known entry; known are "
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
            f"name cannot be {shown_value(name)}: use only letters, digits, '.', '+', '-' and '_'"
        )
    return name


def _required(entries: dict[str, Any], name: str) -> Any:
    if name not in entries:
        raise KeyError(f"{name} is missing")
    return entries[name]


def _table(entries: dict[str, Any], name: str) -> dict[str, Any]:
    table = _required(entries, name)
    if not isinstance(table, dict):
        raise TypeError(f"{name} is not a table: write it as [{name}]")
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


OFF_THE_DEVICE = "reported by the device: torch.cuda.get_device_properties()"
CLOCK_TIMES_BUS = (
    "computed: memory clock x {transfers} transfers x bus width, clock and bus reported by the "
    "device"
)
NOT_TOLD = "not known: the driver does not tell"

READ_OFF = {
    "multiprocessors": "multi_processor_count",
    "warp_size": "warp_size",
    "registers_per_multiprocessor": "regs_per_multiprocessor",
    "shared_per_block": "shared_memory_per_block_optin",
    "shared_per_block_default": "shared_memory_per_block",
    "shared_per_multiprocessor": "shared_memory_per_multiprocessor",
    "threads_per_multiprocessor": "max_threads_per_multi_processor",
    "threads_per_block": "max_threads_per_block",
    "l2_bytes": "L2_cache_size",
    "memory_bytes": "total_memory",
}
"""Field of a Gpu → the device's property from which it is read."""


def gpu_like(device_name: str, properties: Mapping[str, object]) -> Gpu | None:
    """Return the GPU of a device, from its recorded ``properties``, which are empty in some
    sessions. None if it is not known: no GPU, or one of a compute capability or architecture that
    limits.py does not list.
    """
    described = gpu_of_device(device_name)
    if (
        described
        and properties.get("multi_processor_count", described.multiprocessors)
        == described.multiprocessors
    ):
        return described
    limits = _limits(properties)
    if limits:
        return gpu_of_properties(device_name, properties, limits)
    return None


def _limits(properties: Mapping[str, object]) -> Limits | None:
    arch = str(properties.get("gcnArchName", "")).partition(":")[0]  # gfx942:sramecc+:xnack-
    if "gfx" in arch:
        return amd_limits(arch)
    return nvidia_limits((_number(properties, "major"), _number(properties, "minor")))


def gpu_of_properties(
    device_name: str, properties: Mapping[str, object], limits: Limits
) -> Gpu | None:
    """Return a GPU with the numbers that torch read from the device. A number of 0 is
    unknown: the bandwidth, if the driver does not report clock or bus.
    """
    fields = [field for field in READ_OFF if field not in limits.numbers]
    numbers = {field: _number(properties, READ_OFF[field]) for field in fields}
    if not all(numbers.values()):
        return None
    bus, clock = (
        _number(properties, "memory_bus_width"),
        1000 * _number(properties, "memory_clock_rate"),
    )
    optional = {
        "memory_bus_bits": bus,
        "memory_clock_hz": clock,
        "clock_hz": 1000 * _number(properties, "clock_rate"),
    }
    bandwidth = clock * limits.transfers_per_clock * bus // 8
    sources = dict.fromkeys(numbers, OFF_THE_DEVICE)
    for field, value in optional.items():
        sources[field] = OFF_THE_DEVICE if value else NOT_TOLD
    sources.update(limits.sources)
    if bandwidth:
        sources["memory_bandwidth"] = CLOCK_TIMES_BUS.format(transfers=limits.transfers_per_clock)
    else:
        sources["memory_bandwidth"] = NOT_TOLD
    return Gpu(
        name=device_name,
        title=device_name,
        device_name=device_name,
        vendor=limits.vendor,
        arch=limits.arch,
        capability=limits.capability,
        memory_bandwidth=bandwidth,
        peak_flops={},
        sources=sources,
        **numbers,
        **optional,
        **limits.numbers,
    )


def _number(properties: Mapping[str, object], name: str) -> int:
    value = properties.get(name, 0)
    return value if isinstance(value, int) else 0


# What no driver tells of a GPU, by its compute capability or architecture: limits that occupancy
# is computed with.

GUIDE = "CUDA C++ Programming Guide, Compute Capabilities, technical specifications"
OCCUPANCY = "cuda_occupancy.h of the CUDA toolkit"
LLVM = "LLVM, AMDGPUBaseInfo.cpp, limits of {arch}"
ISA = "AMD Instinct instruction set architecture, reference guide of {arch}"


@dataclass(frozen=True, slots=True)
class Limits:
    vendor: Vendor
    arch: str
    capability: tuple[int, ...]
    transfers_per_clock: int
    """Transfers of the memory per clock, with its clock as the driver reports it."""
    numbers: dict[str, int]
    """Fields of a Gpu."""
    sources: dict[str, str]


BLOCKS_OF_CAPABILITY = {
    (7, 0): 32,
    (7, 5): 16,
    (8, 0): 32,
    (8, 6): 16,
    (8, 7): 16,
    (8, 9): 24,
    (9, 0): 32,
    (10, 0): 32,
    (10, 3): 32,
    (12, 0): 24,
    (12, 1): 24,
}
"""Maximum number of blocks on a multiprocessor: the one limit that torch's properties lack (CUDA
C++ Programming Guide).
"""


def nvidia_limits(capability: tuple[int, int]) -> Limits | None:
    """Return the limits of a compute capability; None if it is not listed above."""
    if capability not in BLOCKS_OF_CAPABILITY:
        return None
    if capability >= (8, 0):
        shared_reserved, shared_granularity = 1024, 128
    else:
        shared_reserved, shared_granularity = 0, 256
    by_guide = {
        "registers_per_thread": 255,
        "shared_reserved_per_block": shared_reserved,
        "blocks_per_multiprocessor": BLOCKS_OF_CAPABILITY[capability],
    }
    by_calculator = {
        "register_granularity": 256,
        "shared_granularity": shared_granularity,
    }
    sources = {**dict.fromkeys(by_guide, GUIDE), **dict.fromkeys(by_calculator, OCCUPANCY)}
    arch = f"sm_{capability[0]}{capability[1]}"
    return Limits("nvidia", arch, capability, 2, {**by_guide, **by_calculator}, sources)


@dataclass(frozen=True, slots=True)
class _Cdna:
    capability: tuple[int, int]
    local_memory_bytes: int
    local_memory_granularity: int
    transfers_per_clock: int


CDNA = {
    "gfx90a": _Cdna((9, 0), 65_536, 512, 2),
    "gfx942": _Cdna((9, 4), 65_536, 512, 4),
    "gfx950": _Cdna((9, 5), 163_840, 1_280, 4),
}
"""MI200, MI300 and MI350: 512 vector registers a lane for both kinds together, and 8 wavefronts on
each of 4 SIMD units.
"""


def amd_limits(arch: str) -> Limits | None:
    """Return the limits of an architecture; None if it is not listed above.

    They are not read off the device, because ROCm's releases differ in what they report of
    registers and local memory.
    """
    if arch not in CDNA:
        return None
    cdna = CDNA[arch]
    by_llvm = {
        "registers_per_multiprocessor": 131_072,
        "register_granularity": 512,
        "shared_granularity": cdna.local_memory_granularity,
        "shared_reserved_per_block": 0,
        "threads_per_multiprocessor": 2_048,
        "blocks_per_multiprocessor": 16,
    }
    shared = ("shared_per_block", "shared_per_block_default", "shared_per_multiprocessor")
    by_isa = {"warp_size": 64, "registers_per_thread": 512, "threads_per_block": 1_024}
    by_isa |= dict.fromkeys(shared, cdna.local_memory_bytes)
    sources = {
        **dict.fromkeys(by_llvm, LLVM.format(arch=arch)),
        **dict.fromkeys(by_isa, ISA.format(arch=arch)),
    }
    return Limits(
        "amd", arch, cdna.capability, cdna.transfers_per_clock, {**by_llvm, **by_isa}, sources
    )
