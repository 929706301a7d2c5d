"""This module returns the GPU that a session's numbers are compared with: the virtual one, or the
real one that it was recorded on. It also has the sentences on what cannot be known without a GPU,
for the places where it matters.
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


# What cannot be known without the GPU.


UNKNOWN_PICK = (
    "Which configuration the autotuner would pick is not known: it times them on the GPU. "
    "All of them are shown."
)
UNKNOWN_RUN_TIME = (
    "How long it takes is not known: nothing ran. The estimate is the least time that the "
    "data sheet allows."
)
UNKNOWN_PADDING = (
    "Whether a matrix would be padded is not known: that is decided by timing it on the GPU. "
    "Nothing is padded here."
)
UNKNOWN_LIBRARY_KERNEL = (
    "A library call: which kernel the library runs, and what it looks like inside, is "
    "decided on the GPU."
)
UNKNOWN_LIBRARY_PICK = (
    "Which of them the autotuner would pick is not known: it times them on the GPU. The "
    "first is shown."
)
UNKNOWN_TEMPLATE_OR_LIBRARY = (
    "Whether a template or a library would be taken is not known: they are timed on the GPU. "
    "A template is shown."
)
TEMPLATE_WITHOUT_FUSION = (
    "Some configurations of the template are shown without the operations that are fused "
    "into the first."
)
ATTENTION_BY_OUR_RULES = (
    "Which attention kernel would be chosen is decided by our copy of the rules of a CUDA build."
)
NOT_CAPTURED_FOR_A_GPU = (
    "This session was not captured for a GPU: capture it with --gpu h100, for example."
)
NO_SASS_ON_AMD = "AMD's machine code is the AMDGCN text: there is no level below it."
