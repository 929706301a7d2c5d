"""The backends that an interpreter's torch has, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fx_explorer
from fx_explorer.client.asked_python import ask_python
from fx_explorer.errors import WorkerError

ASKED = Path(fx_explorer.__file__).parent / "worker" / "backends_here.py"

TIMEOUT_S = 120

FOR_TESTS = "TESTING_ONLY"
"""The end of the names of backends that fail on purpose."""

DOES = {
    "inductor": "torch's own compiler: Triton kernels on a GPU, C++ on the CPU",
    "cudagraphs": "the graphs as they are, recorded and replayed as CUDA graphs; without a GPU just run",
    "openxla": "XLA, for TPUs and other devices, with AOTAutograd",
    "openxla_eval": "XLA, without gradients",
    "tvm": "Apache TVM, without gradients",
    "eager": "Dynamo's graphs, run by PyTorch: a fault that stays is Dynamo's",
    "eager_noexcept": "as eager; an exception in a graph says that it is a bug",
    "eager_debug": "as eager; checks what operators say of their results",
    "pre_dispatch_eager": "Dynamo's graphs, traced once more before autograd",
    "aot_eager": (
        "AOTAutograd's graphs, run by PyTorch: with eager right and this wrong, it is AOTAutograd"
    ),
    "aot_eager_default_partitioner": "as aot_eager; saves all that the backward needs",
    "aot_eager_decomp_partition": "as aot_eager, with Inductor's decompositions and partitioner",
    "aot_eager_decomp_partition_with_mode": "the same under a dispatch mode",
    "aot_eager_decomp_partition_crossref": "the same, each operator compared with its fake",
    "aot_ts": "AOTAutograd's graphs, run by TorchScript",
    "ts": "Dynamo's graphs, run by TorchScript",
    "invoke_subgraph": "AOTAutograd's graphs as regions, for tracing within tracing",
    "dynamo_minifier_backend": "makes a failing graph smaller (torch._dynamo.config.repro_after)",
    "dynamo_accuracy_minifier_backend": "makes a graph with wrong results smaller",
}
"""Backends of torch → what they do. Others say it in their own documentation."""


@dataclass(frozen=True)
class Backend:
    """A registered backend."""

    name: str
    tags: tuple[str, ...]
    """torch's words: ``debug``, ``experimental``."""
    package: str
    """Who registered it: ``torch``, or a package with its release."""
    does: str
    """Empty where neither we nor its documentation say."""
    missing: str
    """What keeps it from being used here; empty where nothing is known to."""

    @property
    def is_for_tests(self) -> bool:
        return self.name.endswith(FOR_TESTS)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "is_usable": not self.missing}


def backends_of(python: str, names: Sequence[str] = ()) -> tuple[str, list[Backend]]:
    """Return the release of an interpreter's torch, and its backends, or those of these names.
    Raises WorkerError where it has no torch, or does not answer.
    """
    try:
        ended = ask_python(python, str(ASKED), *names, timeout_s=TIMEOUT_S)
    except WorkerError as error:
        raise WorkerError(f"{python} {error}. Choose another --python.") from error
    answers = ended.objects()
    if ended.status or not answers:
        words = ended.last_words or f"it ended with status {ended.status}"
        raise WorkerError(f"{python} could not say its backends: {words}")
    try:
        return str(answers[-1]["torch"]), [_backend(row) for row in answers[-1]["backends"]]
    except (LookupError, TypeError, ValueError) as error:
        raise WorkerError(f"{python} answers as no Python with torch does") from error


def _backend(row: dict[str, object]) -> Backend:
    name, tags = str(row["name"]), row["tags"]
    does = DOES.get(name) if row["package"] == "torch" else None
    document = " ".join(str(row["document"]).split())
    tags_of_torch = tuple(map(str, tags)) if isinstance(tags, list) else ()
    return Backend(name, tags_of_torch, str(row["package"]), does or document, str(row["missing"]))


def groups(backends: Iterable[Backend]) -> Iterator[tuple[str, list[Backend]]]:
    """Yield the backends by what they are for, each group with its title."""
    found: dict[str, list[Backend]] = {}
    for one in backends:
        found.setdefault(_group(one), []).append(one)
    yield from ((title, found[title]) for title in _TITLES if title in found)
    yield from ((title, members) for title, members in found.items() if title not in _TITLES)


_STABLE, _EXPERIMENTAL, _DEBUG, _TESTS = (
    "To make programs faster",
    "Experimental",
    "To find out which stage a fault is from",
    "For tests of torch itself: they fail on purpose",
)

_TITLES = (_STABLE, _EXPERIMENTAL, _DEBUG, _TESTS)


def _group(one: Backend) -> str:
    if one.package != "torch":
        return f"Registered by {one.package}"
    if one.is_for_tests:
        return _TESTS
    if "experimental" in one.tags:
        return _EXPERIMENTAL
    return _DEBUG if "debug" in one.tags else _STABLE
