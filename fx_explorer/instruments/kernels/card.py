"""The GPU that a session's numbers are compared with: the virtual one, or the real one that it was
recorded on.
"""

from __future__ import annotations

import json
from functools import lru_cache

from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.gpus import gpu_like, gpu_of_device
from fx_explorer.model import Gpu, KernelBuild
from fx_explorer.session import SessionReader

NOT_DESCRIBED = "The limits of {device} are not known, so there is no occupancy and no estimate."


def card(reader: SessionReader) -> Gpu | None:
    """Return the GPU. None on a CPU, before the program has used the GPU, and for an unknown GPU
    (``not_described`` says so).

    ``session_gpu`` is the GPU that kernels are compiled for: only a virtual one.
    """
    environment = reader.meta("environment") or {}
    # As text, since a dict cannot be the key of a cache.
    return session_gpu(reader) or _real(
        device_name(reader), json.dumps(environment.get("gpu_properties") or {})
    )


def device_name(reader: SessionReader) -> str:
    """Return the name of the real GPU; empty without one."""
    told = (reader.meta("environment") or {}).get("gpu")
    return str(told or _of_a_build(reader))


def measured_card(reader: SessionReader, device: str) -> Gpu | None:
    """Return the GPU that a kernel was measured on, which need not be the session's."""
    return card(reader) if device == device_name(reader) else gpu_of_device(device)


def not_described(reader: SessionReader) -> str:
    """Return a sentence where there is a GPU and no ``card``; otherwise empty."""
    device = device_name(reader)
    return NOT_DESCRIBED.format(device=device) if device and card(reader) is None else ""


def _of_a_build(reader: SessionReader) -> str:
    """Return the GPU that a build names, for a session that ended before its environment was
    written again.
    """
    return next((row.gpu for row in reader.rows(KernelBuild, limit=1)), "")


@lru_cache(maxsize=4)
def _real(device: str, properties: str) -> Gpu | None:
    """Return the GPU described by ``properties`` (JSON). It is remembered, because the inspector
    asks at every move of the cursor.
    """
    return gpu_like(device, json.loads(properties)) if device else None
