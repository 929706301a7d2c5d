"""List the backends of this interpreter's torch, and try each on a small graph
(``fx-explorer backends``).

Called as ``python …/worker/backends_here.py [NAME ...]``, by path, in the interpreter that is asked
about. Prints one JSON line: the release of torch, and a row for each backend, or for those that are
named.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any


def main(wanted: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what torch and other packages print is no answer
    import torch

    answers.write(
        json.dumps(
            {
                "torch": torch.__version__,
                "backends": [_row(name) for name in _names() if not wanted or name in wanted],
            }
        )
        + "\n"
    )
    answers.flush()
    os._exit(0)


def _names() -> list[str]:
    import torch

    return list(torch.compiler.list_backends(exclude_tags=()))


def _row(name: str) -> dict[str, Any]:
    """Return the facts about a backend: ``missing`` says what keeps it from being used here, and is
    empty if nothing is known to.
    """
    row: dict[str, Any] = {
        "name": name,
        "tags": [],
        "package": "torch",
        "document": "",
        "missing": "",
    }
    try:
        from fx_explorer.capture.torch_compat.private_names import backend_registry

        entry = backend_registry._BACKENDS.get(name)
        if entry is not None:
            row["package"] = _package(entry)
        function = backend_registry.lookup_backend(name)
    except Exception as error:  # noqa: BLE001
        # told in the list: packages raise anything when they are loaded
        return {
            **row,
            "missing": f"it cannot be loaded: {type(error).__name__}: {error}".partition("\n")[0],
        }
    row["tags"] = list(getattr(function, "_tags", ()))
    if callable(function) and not isinstance(function, type) and hasattr(function, "__code__"):
        row["document"] = (function.__doc__ or "").strip().partition("\n\n")[0]
    row["missing"] = NEEDS[name]() if name in NEEDS else ""
    if row["missing"]:
        return row
    return {**row, "missing": _tried(name)}


def _tried(name: str) -> str:
    """Return why a backend does not compile a product and a relu rightly; empty where it does."""
    import torch

    from fx_explorer.program.equal_results import compare_result

    def small(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ x) + 1

    torch.compiler.reset()
    x = torch.randn(4, 4)
    try:
        result = torch.compile(small, backend=name)(x)
    except Exception as error:  # noqa: BLE001 - told in the list
        inner = getattr(error, "inner_exception", error)
        first = next((line.strip() for line in str(inner).splitlines() if line.strip()), "")
        return (
            f"it fails on a product of matrices and a relu: {type(inner).__name__}: {first}".rstrip(
                ".: "
            )
        )
    differs = compare_result(result, small(x), small(x.double())).kind == "differs"
    if differs:
        return "its results differ for a product of matrices and a relu"
    return ""


def _package(entry: EntryPoint) -> str:
    distribution = entry.dist
    if distribution is not None:
        return f"{distribution.name} {distribution.version}"
    return entry.value


# what each of torch's own needs


def _a_compiler() -> str:
    from fx_explorer.capture.torch_compat.private_names import cpp_builder, inductor_exc

    try:
        cpp_builder.get_cpp_compiler()
    except inductor_exc.InvalidCxxCompiler:
        return "it needs a C++ compiler for the CPU, but none is installed: install g++"
    return ""


def _a_module(name: str, package: str) -> Callable[[], str]:
    def missing() -> str:
        from fx_explorer.capture.torch_compat.installed import is_installed

        if is_installed(name):
            return ""
        return f"it needs the package {package}"

    return missing


def _not_by_name() -> str:
    return "it is selected with torch._dynamo.config.repro_after, not as a backend"


NEEDS: dict[str, Callable[[], str]] = {
    "dynamo_minifier_backend": _not_by_name,
    "dynamo_accuracy_minifier_backend": _not_by_name,
    "inductor": _a_compiler,
    "openxla": _a_module("torch_xla", "torch_xla"),
    "openxla_eval": _a_module("torch_xla", "torch_xla"),
    "tvm": _a_module("tvm", "apache-tvm"),
}
"""Backend → a function that returns what it needs and lacks here; empty if nothing."""


if __name__ == "__main__":
    # beside this file: Python puts a script's directory first
    from worker import load_package  # type: ignore[import-not-found]

    del sys.path[0]
    load_package()
    sys.modules.pop("worker")
    main(sys.argv[1:])
