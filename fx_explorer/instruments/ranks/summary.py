"""This module has the summary of a rank that is compared: figures and fingerprints, a few hundred
bytes a compilation, so that a thousand ranks are compared without holding their sessions.

Fingerprints of graphs, checks and texts are equal on two ranks that did the same, in whatever
process, on whatever device. What differs between any two processes is left out: the number of the
device, addresses, and ids of objects.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fx_explorer import model

Fingerprint = str
"""A text that is equal for two ranks with equal content; empty without such content."""


@dataclass(frozen=True, slots=True)
class CompilationSummary:
    """One compilation of one rank."""

    name: str
    """Name as torch writes it: ``0/1``."""
    function: str
    file: str
    """File of the function's first line; for a wrapper function of torch's, of the line that calls
    it.
    """
    line: int
    status: str
    error: str
    """First line of the error that ended it."""
    failed_in: str
    """Stage that raised the error, by its usual name: ``AOTAutograd``; empty when nothing
    failed.
    """
    failed_at: tuple[str, int]
    """The user's line in the traceback; no file and 0 without one."""
    start_s: float
    """Seconds since the epoch if the session has them, else since the session began."""
    duration_s: float
    graph: Fingerprint
    """Fingerprint of the graph's operations and of the values they are applied to, without names,
    sizes and numbers.
    """
    inputs: Fingerprint
    """Types and sizes of the graph's inputs, without their devices."""
    tensors: Fingerprint
    """Types and sizes of all its values."""
    numbers: Fingerprint
    """The numbers among the arguments of its operations."""
    guards: Fingerprint
    """Fingerprint of the guards, without the numbers in them."""
    guard_values: Fingerprint
    """Fingerprint of the numbers that checks compare with, such as the rank's own number."""
    breaks: Fingerprint
    reasons: Fingerprint
    """Fingerprint of the reasons for recompiling."""
    cache: tuple[str, ...]
    """Results of torch's caches, in order: ``fx_graph_cache_miss``."""
    traced_collectives: Fingerprint
    """Collectives of the graph, in order."""
    scheduled_collectives: Fingerprint
    """Fingerprint of the collectives in Inductor's order; empty where Inductor was not reached, or
    the record is missing.
    """
    has_collectives: bool
    modules: Fingerprint
    """Names of the parameters and buffers that the graph takes."""
    is_of_pipeline: bool
    """Whether a pipeline schedule called it."""
    is_of_shared_model: bool
    """Whether the ranks share one model: by DDP, FSDP, DTensor, or collectives in the graph."""
    results: Fingerprint
    """Fingerprint of the sizes and types of the results of kernels and calls in the generated code.
    torch writes them for some jobs only.
    """

    @property
    def has_ended(self) -> bool:
        return self.status != "running"

    @property
    def has_failed(self) -> bool:
        return self.status == "failed"

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class RankSummary:
    """The data of one rank that is compared: its compilations, versions and files."""

    rank: int
    path: str
    """Path of its log or session."""
    compilations: tuple[CompilationSummary, ...]
    """Its compilations, in the order in which they began."""
    torch: str
    python: str
    executed: Fingerprint
    """The compiled graphs in the order in which they ran; torch writes it for some jobs only."""
    has_clock: bool
    """Whether its times count from the epoch, so that they can be compared with another rank's."""
    unknown_end: str = ""
    """Why the last actions of the rank are not known; empty where the session is complete."""
    is_text: bool = False
    """Whether its file is a text that torch printed, in which entries may be missing."""
    notes: tuple[str, ...] = ()
    """Other remarks on its file: parts that could not be read, or another rank that it names."""
    files_of_one_name: tuple[str, ...] = ()
    """Paths of source files that share their name with another file; texts show them with their
    folder.
    """

    @property
    def has_failed(self) -> bool:
        """Return whether one of its compilations failed."""
        return any(compilation.has_failed for compilation in self.compilations)

    @property
    def compile_s(self) -> float:
        return sum(compilation.duration_s for compilation in self.compilations)


MOST_APART_S = 600.0
"""Seconds within which ranks of one job begin to compile: NCCL gives up a collective that takes
longer.
"""


def began_together(ranks: Iterable[RankSummary]) -> bool:
    """Return whether the clocks of ranks can be compared: all have one, and the ranks began at
    about the same time.
    """
    compiling = [rank for rank in ranks if rank.compilations]
    starts = [rank.compilations[0].start_s for rank in compiling]
    return (
        bool(starts)
        and all(rank.has_clock for rank in compiling)
        and max(starts) - min(starts) <= MOST_APART_S
    )


# Fingerprints.


_NAME = re.compile(r"[A-Za-z_]\w*")

_NUMBER = re.compile(r"(?<![\w.])-?(?:0x[0-9a-f]+|\d[\w.]*)")

_DEVICE = re.compile(r"\b(cuda|xpu|hip|mps|cpu):\d+|device\(type='\w+', index=\d+\)|\bdevice=\d+")

_CALL_OF_AN_ID = re.compile(r"(?P<call>\b\w*(?:_id|data_ptr)\([^()]{0,400}?[, ])\d+(?=[,)])")
"""Matches ``___check_obj_id(L['f'], 9804352)``, whose last argument is the ``id()`` of an object,
however small.
"""

_LONG_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9]{5,}")

_UNIQUE = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}(?![0-9a-f])"
)
"""Matches a ``uuid4()``, which torch puts into names of compiled functions
(torch/_dynamo/output_graph.py).
"""

LOWEST_ADDRESS = 1 << 16
"""Lowest address that can be mapped (``vm.mmap_min_addr``)."""

LOWEST_HEAP_ADDRESS = 1 << 32
"""Lowest address of objects that are not part of the interpreter itself."""

_OF_MODULE = re.compile(r"_(?:modules|parameters|buffers)_")
"""Matches a name that Dynamo gives to an input held by a module:
``L_self_modules_up_parameters_weight_``.
"""

_COLLECTIVE = re.compile(r"\b_?c10d(?:_functional)?\b|\bsymm_mem\b")


class GraphPrints(NamedTuple):
    """Fingerprints of one graph, with the graphs nested in it."""

    operations: Fingerprint
    inputs: Fingerprint
    tensors: Fingerprint
    numbers: Fingerprint
    collectives: Fingerprint
    modules: Fingerprint


NO_GRAPH = GraphPrints("", "", "", "", "", "")


def fingerprint(parts: Iterable[str]) -> Fingerprint:
    """Return a hash of the parts in their order; empty for none."""
    digest, is_empty = hashlib.blake2b(digest_size=8), True
    for part in parts:
        is_empty = False
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return "" if is_empty else digest.hexdigest()


def graph_prints(nodes: Sequence[model.Node]) -> GraphPrints:
    """Return the fingerprints of a graph. A node is known by its position, so that names do not
    count.
    """
    position = {node.name: f"%{at}" for at, node in enumerate(nodes)}
    operations, inputs, tensors, numbers = [], [], [], []
    for node in nodes:
        arguments = _NAME.sub(
            lambda name: position.get(name[0], name[0]), _DEVICE.sub(r"\1", node.arguments)
        )
        arguments = without_identities(arguments)
        if node.op == "placeholder":
            target = ""
        else:
            target = without_identities(node.target)
        does = f"{node.op} {target}"
        operations.append(f"{does}({_NUMBER.sub('N', arguments)})")
        tensor = f"{node.dtype}{node.shape}{node.stride}"
        tensors.append(tensor)
        if node.op == "placeholder":
            inputs.append(tensor)
        else:
            numbers.append(arguments)
    collectives = [short_target(node.target) for node in nodes if is_collective(node.target)]
    modules = sorted(filter(None, map(module_input, nodes)))
    texts = operations, inputs, tensors, numbers, collectives, modules
    return GraphPrints(*map(fingerprint, texts))


def module_input(node: model.Node) -> str:
    """Return which parameter or buffer an input of Dynamo's graph is, and its size; empty for any
    other node.
    """
    if node.op != "placeholder":
        return ""
    name = (node.target or node.name).lower()
    if _OF_MODULE.search(name):
        return f"{name} {node.dtype}{node.shape}"
    return ""


def is_collective(target: str) -> bool:
    """Return whether an operation is one of torch's functional collectives, or waits for one."""
    return bool(_COLLECTIVE.search(target))


def short_target(target: str) -> str:
    """Return ``all_reduce`` for ``torch.ops._c10d_functional.all_reduce_.default``."""
    plain = target.removeprefix("torch.ops.").removesuffix(".default")
    return plain.rpartition(".")[2].removesuffix("_")


def checked(check: model.GuardCheck) -> str:
    """Return the checked property of a guard, without numbers."""
    return f"{check.kind} {unnumbered(check.source)} {unnumbered(str(check.code))}"


def unnumbered(text: str) -> str:
    return _NUMBER.sub("N", without_identities(text))


LONGEST_KEPT, MOST_KEPT = 300, 20_000
"""Maximum length of a text, and maximum number of texts, whose results are cached: the ranks of a
job have the same checks and operations.
"""


def without_identities(text: str) -> str:
    """Return what ``_without_identities`` does, from a cache for short texts."""
    if len(text) <= LONGEST_KEPT:
        return _kept(text)
    return _without_identities(text)


@lru_cache(MOST_KEPT)
def _kept(text: str) -> str:
    return _without_identities(text)


def _without_identities(text: str) -> str:
    """Return a text without the parts that differ between any two processes: devices, and addresses
    and ids of objects.

    torch makes names of ids (``__dtensor_spec_139998860332224``, ``torch_obj_139…``,
    ``G['__optimizer_139…_c0']``), and so may a program. A number in a name is an identity where it
    can be an address; one that stands by itself is a size unless it is too large for one, or is
    what an object's id is compared with.
    """
    text = _DEVICE.sub("device", text)
    text = _CALL_OF_AN_ID.sub(r"\g<call>…", text)
    text = _UNIQUE.sub("…", text)
    return _LONG_NUMBER.sub(_without_identity, text)


def _without_identity(number: re.Match[str]) -> str:
    digits, text = number[0], number.string
    before = text[number.start() - 1 : number.start()]
    after = text[number.end() : number.end() + 1]
    is_hexadecimal = digits.startswith("0x")
    is_in_a_name = before.isalpha() or before == "_" or after.isalpha() or after == "_"
    # A number of more digits is no address either, and Python refuses to read it.
    value = 0
    if len(digits) < 40:
        base = 16 if is_hexadecimal else 10
        value = int(digits, base)
    if is_hexadecimal or is_in_a_name:
        lowest = LOWEST_ADDRESS
    else:
        lowest = LOWEST_HEAP_ADDRESS
    return "…" if value >= lowest else digits
