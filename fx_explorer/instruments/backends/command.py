"""This module is ``fx-explorer backends``: it lists the backends of torch.compile in an
interpreter's torch, what each does, and whether it can be used here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fx_explorer
from fx_explorer.client.asked_python import ask_python
from fx_explorer.errors import UsageError, WorkerError
from fx_explorer.output.formats import json_text, text_of
from fx_explorer.output.terminal import terminal_width

ASKED = Path(fx_explorer.__file__).parent / "worker" / "backends_here.py"

TIMEOUT_S = 120

FOR_TESTS = "TESTING_ONLY"
"""Suffix of the names of backends that fail on purpose."""

DOES = {
    "inductor": "torch's own compiler: Triton kernels on a GPU, C++ on the CPU",
    "cudagraphs": "Dynamo's graphs, recorded and replayed as CUDA graphs; without a GPU, only run",
    "openxla": "XLA, for TPUs and other devices, with AOTAutograd",
    "openxla_eval": "XLA, without gradients",
    "tvm": "Apache TVM, without gradients",
    "eager": "Dynamo's graphs, run by PyTorch: a fault that remains is Dynamo's",
    "eager_noexcept": "like eager; reports an exception in a graph as a bug",
    "eager_debug": "like eager; checks operators against their schemas",
    "pre_dispatch_eager": "Dynamo's graphs, traced once more before autograd",
    "aot_eager": (
        "AOTAutograd's graphs, run by PyTorch: a fault here, but not with eager, is AOTAutograd's"
    ),
    "aot_eager_default_partitioner": "like aot_eager; saves everything that the backward needs",
    "aot_eager_decomp_partition": "like aot_eager, with Inductor's decompositions and partitioner",
    "aot_eager_decomp_partition_with_mode": "like it, under a dispatch mode",
    "aot_eager_decomp_partition_crossref": (
        "like it, and compares each operator with its fake implementation"
    ),
    "aot_ts": "AOTAutograd's graphs, run by TorchScript",
    "ts": "Dynamo's graphs, run by TorchScript",
    "invoke_subgraph": "AOTAutograd's graphs as regions, for tracing within tracing",
    "dynamo_minifier_backend": "makes a failing graph smaller (torch._dynamo.config.repro_after)",
    "dynamo_accuracy_minifier_backend": "makes a graph with wrong results smaller",
}
"""Backend of torch → what it does. Other backends have documentation of their own."""


@dataclass(frozen=True)
class Backend:
    """A registered backend."""

    name: str
    tags: tuple[str, ...]
    """torch's words: ``debug``, ``experimental``."""
    package: str
    """The package that registered it: ``torch``, or another with its release."""
    does: str
    """One sentence on the backend; empty when neither we nor its docstring have one."""
    missing: str
    """What is missing to use the backend here; empty when nothing is known to be missing."""

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
        words = ended.last_error_line or f"it ended with status {ended.status}"
        raise WorkerError(f"{python} could not list its backends: {words}")
    try:
        return str(answers[-1]["torch"]), [_backend(row) for row in answers[-1]["backends"]]
    except (LookupError, TypeError, ValueError) as error:
        raise WorkerError(
            f"{python} does not answer as a Python interpreter with torch would"
        ) from error


def _backend(row: dict[str, object]) -> Backend:
    name, tags = str(row["name"]), row["tags"]
    does = DOES.get(name) if row["package"] == "torch" else None
    document = " ".join(str(row["document"]).split())
    tags_of_torch = tuple(map(str, tags)) if isinstance(tags, list) else ()
    return Backend(name, tags_of_torch, str(row["package"]), does or document, str(row["missing"]))


def groups(backends: Iterable[Backend]) -> Iterator[tuple[str, list[Backend]]]:
    """Yield the backends in groups by purpose, each with its title."""
    found: dict[str, list[Backend]] = {}
    for backend in backends:
        found.setdefault(_group(backend), []).append(backend)
    yield from ((title, found[title]) for title in _TITLES if title in found)
    yield from ((title, members) for title, members in found.items() if title not in _TITLES)


_STABLE, _EXPERIMENTAL, _DEBUG, _TESTS = (
    "To make programs faster",
    "Experimental",
    "To find the stage that causes a fault",
    "For tests of torch itself: they fail on purpose",
)

_TITLES = (_STABLE, _EXPERIMENTAL, _DEBUG, _TESTS)


def _group(backend: Backend) -> str:
    if backend.package != "torch":
        return f"Registered by {backend.package}"
    if backend.is_for_tests:
        return _TESTS
    if "experimental" in backend.tags:
        return _EXPERIMENTAL
    return _DEBUG if "debug" in backend.tags else _STABLE


EPILOG = """\
torch.compile gives the graphs to a backend (--backend NAME). fx-explorer tries each on a small
graph. Any of your functions can also be a backend (--backends FILE.py:FUNCTION of fx-explorer
bench). Packages register theirs under the entry point torch_dynamo_backends.

examples:
  fx-explorer backends                                what there is
  fx-explorer backends --all                          those for tests of torch itself, too
  fx-explorer backends --python ../venv/bin/python    of another interpreter
  fx-explorer bench model.py --backends eager,aot_eager,inductor    compare them
"""

SCHEMA = "fx-explorer/backends/1"

TRIED = "✓ compiled a small graph correctly on the CPU, without gradients."


LEAST_WIDTH = 40
"""Minimum width of a line, in cells: the description of a backend is indented."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("names", metavar="NAME", nargs="*", help="these only")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has torch (default: this one)"
    )
    parser.add_argument("--all", action="store_true", help="also backends for torch's own tests")
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="text (default), or json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the backends. Raises UsageError for an unknown name, and WorkerError where the
    interpreter cannot list them.
    """
    release, backends = backends_of(arguments.python, arguments.names)
    unknown = set(arguments.names) - {backend.name for backend in backends}
    if unknown:
        raise UsageError(
            f"torch {release} has no backend {', '.join(sorted(unknown))}: fx-explorer "
            "backends lists them"
        )
    shown = backends
    if not arguments.all and not arguments.names:
        shown = [backend for backend in backends if not backend.is_for_tests]
    if arguments.format == "json":
        listed = [backend.to_json() for backend in shown]
        sys.stdout.write(json_text({"schema": SCHEMA, "torch": release, "backends": listed}))
    else:
        lines = [f"Backends of torch {release} ({arguments.python})", TRIED]
        for title, members in groups(shown):
            lines += ["", title]
            for backend in members:
                lines += _lines(backend)
        sys.stdout.write(text_of(lines, max(terminal_width(), LEAST_WIDTH)))
    return 0


def _lines(backend: Backend) -> list[str]:
    """Return the name of a backend, what it does, and what is missing for it."""
    if backend.missing:
        missing = f"{backend.missing[:1].upper()}{backend.missing[1:]}."
    else:
        missing = ""
    mark = "✗" if backend.missing else "✓"
    sentences = [" " * 6 + sentence for sentence in (backend.does, missing) if sentence]
    return [f"  {mark} {backend.name}", *sentences]
