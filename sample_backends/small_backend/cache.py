"""What was made is used again: a program in this process, an artefact on disk in any other one.

The name of an artefact is a digest of the segment it was made of, of the kernels, and of this
package. So a name stands for one content, and nothing ever has to be thrown out because it is old.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import weakref
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch.fx import GraphModule, Node

from sample_backends.small_backend import artefact
from sample_backends.small_backend.errors import ArtefactRefused
from sample_backends.small_backend.folder import cache_folder, written_whole
from sample_backends.small_backend.library import Loaded, kernels, library
from sample_backends.small_backend.lowering.lowering import content_of, lowered
from sample_backends.small_backend.program import Program

logger = logging.getLogger(__name__)

Origin = Literal["lowered", "read from disk", "in memory"]

counts: Counter[Origin] = Counter()
"""How often a program was made, and how often one that was there was used."""


@dataclass(frozen=True, eq=False)
class Made:
    """A program that is ready to run, and its artefact."""

    program: Program
    loaded: Loaded
    path: Path


_in_memory: weakref.WeakValueDictionary[str, Made] = weakref.WeakValueDictionary()


def made(segment: GraphModule) -> tuple[Made, Origin]:
    """Return the program of a segment, and where it comes from."""
    name = key(segment)
    ready = _in_memory.get(name)
    origin: Origin = "in memory"
    if ready is None:
        path = cache_folder() / f"{name}{artefact.SUFFIX}"
        ready, origin = _from_disk(path), "read from disk"
        if ready is None:
            ready, origin = _lowered(segment, path), "lowered"
        _in_memory[name] = ready
    counts[origin] += 1
    return ready, origin


def artefacts_made() -> list[Path]:
    """Return the artefacts of the programs that are in memory."""
    return [each.path for each in _in_memory.values()]


def load(path: Path) -> Made:
    """Return the program of an artefact. Raises ArtefactRefused."""
    content = artefact.read(path)
    return Made(artefact.unpacked(content), library().load(content), path)


def _from_disk(path: Path) -> Made | None:
    if not path.exists():
        return None
    try:
        return load(path)
    except ArtefactRefused as refused:
        logger.warning("%s is made anew: %s", path, refused)
        return None


def _lowered(segment: GraphModule, path: Path) -> Made:
    program = lowered(segment)
    content = artefact.packed(program, kernels())
    with written_whole(path) as place:
        place.write_bytes(content)
    return Made(program, library().load(content), path)


def key(segment: GraphModule) -> str:
    """Return the name of the segment's artefact."""
    digest = hashlib.sha256(f"{artefact.VERSION} {kernels()} {_own_sources()}\n".encode())
    for node in segment.graph.nodes:
        digest.update(
            f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {_described(node)}\n".encode()
        )
        if node.op == "get_attr":
            digest.update(content_of(getattr(segment, str(node.target))))
    return digest.hexdigest()[:32]


def _described(node: Node) -> str:
    values = node.meta.get("val")
    tensors = values if isinstance(values, (tuple, list)) else [values]
    return " ".join(
        f"{tuple(each.shape)}{each.stride()}" for each in tensors if isinstance(each, torch.Tensor)
    )


@functools.cache
def _own_sources() -> str:
    """Another lowering may make another program of the same segment."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
