"""This module holds what is compared of a rank: figures and fingerprints, a few hundred bytes a
compilation, so that a thousand ranks are compared without holding their sessions.

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
"""Equal for two ranks where they have the same; empty where there is nothing of the kind."""


@dataclass(frozen=True, slots=True)
class CompilationSummary:
    """One compilation of one rank."""

    name: str
    """As torch writes it: ``0/1``."""
    function: str
    file: str
    """Where it begins; where torch put a function of its own around the user's, where that is
    called.
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
    """The user's line in its traceback; no file and 0 where there is none."""
    start_s: float
    """Seconds since the epoch where the session says so, else since the session began."""
    duration_s: float
    graph: Fingerprint
    """Fingerprint of the graph's operations and of which values they are applied to, without names,
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
    """The numbers that checks compare with: a rank's own number is one."""
    breaks: Fingerprint
    reasons: Fingerprint
    """Fingerprint of the reasons for recompiling."""
    cache: tuple[str, ...]
    """What torch's caches said, in order: ``fx_graph_cache_miss``."""
    traced_collectives: Fingerprint
    """Collectives of the graph, in order."""
    scheduled_collectives: Fingerprint
    """The same as Inductor orders them; empty where it was not reached, or its record is missing.
    """
    has_collectives: bool
    modules: Fingerprint
    """Names of the parameters and buffers that the graph takes."""
    is_of_pipeline: bool
    """Whether a schedule of a pipeline called it."""
    is_of_shared_model: bool
    """Whether the ranks hold one model together: DDP, FSDP, DTensor, or collectives in the graph.
    """
    results: Fingerprint
    """Sizes and types of what the kernels and calls of the generated code return; torch writes them
    for some jobs only.
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
    """A RankSummary holds what is compared of one rank: its compilations, versions and files."""

    rank: int
    path: str
    """Its log or session."""
    compilations: tuple[CompilationSummary, ...]
    """In the order in which they began."""
    torch: str
    python: str
    executed: Fingerprint
    """The compiled graphs in the order in which they ran; torch writes it for some jobs only."""
    has_clock: bool
    """Whether its times count from the epoch, and so can be compared with those of another rank."""
    unknown_end: str = ""
    """Why it is not known what the rank did in the end; empty where the session is whole."""
    is_text: bool = False
    """Whether its file is what torch prints: what does not stand there may have been all the same.
    """
    notes: tuple[str, ...] = ()
    """Other remarks on its file: what could not be read, and another rank that the file names."""
    files_of_one_name: tuple[str, ...] = ()
    """Paths of source files that share their name with another file; they are shown with their
    folder.
    """

    @property
    def has_failed(self) -> bool:
        """Return whether a compilation of it failed."""
        return any(compilation.has_failed for compilation in self.compilations)

    @property
    def compile_s(self) -> float:
        return sum(compilation.duration_s for compilation in self.compilations)


MOST_APART_S = 600.0
"""Ranks of one job begin to compile within this time: NCCL gives up a collective that takes longer.
"""


def began_together(ranks: Iterable[RankSummary]) -> bool:
    """Return whether the clocks of ranks can be compared with each other: there are clocks, and the
    ranks began at one time.
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
"""``___check_obj_id(L['f'], 9804352)``: the last argument is ``id()`` of an object, as small as it
may be.
"""

_LONG_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9]{5,}")

_UNIQUE = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}(?![0-9a-f])"
)
"""``uuid4()``, which torch puts into names of compiled functions (torch/_dynamo/output_graph.py).
"""

LOWEST_ADDRESS = 1 << 16
"""Below it nothing is mapped (``vm.mmap_min_addr``)."""

LOWEST_HEAP_ADDRESS = 1 << 32
"""Where objects lie that are not part of the interpreter itself."""

_OF_MODULE = re.compile(r"_(?:modules|parameters|buffers)_")
"""``L_self_modules_up_parameters_weight_``: how Dynamo names the inputs that modules hold."""

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
    """Return the same text for the same parts in the same order; empty for none."""
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
    """Return what is checked, without the numbers."""
    return f"{check.kind} {unnumbered(check.source)} {unnumbered(str(check.code))}"


def unnumbered(text: str) -> str:
    return _NUMBER.sub("N", without_identities(text))


LONGEST_KEPT, MOST_KEPT = 300, 20_000
"""Characters of a text, and texts, whose answers are kept: the ranks of a job check and compute the
same.
"""


def without_identities(text: str) -> str:
    """See ``_without_identities``, whose answers for short texts are kept."""
    if len(text) <= LONGEST_KEPT:
        return _kept(text)
    return _without_identities(text)


@lru_cache(MOST_KEPT)
def _kept(text: str) -> str:
    return _without_identities(text)


def _without_identities(text: str) -> str:
    """Return a text without what differs between any two processes: devices, and addresses and ids
    of objects.

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
