"""These tests check what an import loads. A linter cannot see a deferred import, so these look at
sys.modules of a fresh process.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ["torch", "triton", "numpy", "textual"]


def heavy_modules_after(statement: str) -> set[str]:
    """Which of HEAVY a fresh interpreter has loaded after ``statement``."""
    program = f"import sys, json\n{statement}\njson.dump([m for m in {HEAVY!r} if m in sys.modules], sys.stderr)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "module", ["fx_explorer", "fx_explorer.cli", "fx_explorer.report", "fx_explorer.analysis"]
)
def test_headless_modules_load_neither_torch_nor_textual(module: str) -> None:
    assert heavy_modules_after(f"import {module}") == set()


WITHOUT_TORCH = (
    "analysis",
    "client",
    "command_line",
    "commands",
    "drawing",
    "instruments",
    "overview",
    "report",
    "tui",
)


def test_no_module_of_these_packages_loads_torch() -> None:
    walk = f"""
import importlib, pkgutil, sys
for name in {WITHOUT_TORCH!r}:
    package = importlib.import_module("fx_explorer." + name)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".measure" in found.name:  # which runs in the worker
            continue
        importlib.import_module(found.name)
        if "torch" in sys.modules:
            sys.exit(found.name + " loads torch")
"""
    assert heavy_modules_after(walk) <= {"textual"}


def test_help_loads_neither_torch_nor_textual() -> None:
    call = (
        "from fx_explorer import cli\ntry:\n    cli.main(['--help'])\nexcept SystemExit:\n    pass"
    )
    assert heavy_modules_after(call) == set()


def test_what_prepares_a_trial_does_not_load_the_compiler_which_a_virtual_gpu_must_precede() -> (
    None
):
    modules = "torch._dynamo.device_interface"
    program = (
        "import sys, torch, fx_explorer.instruments.fixes.measure.programs, fx_explorer.instruments.fixes.measure.verifying\n"
        f"sys.exit({modules!r} in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


@pytest.mark.parametrize(
    "module",
    [
        "fx_explorer.worker.job",  # a script must be the first to import torch
        "fx_explorer.worker.script_program",
        "fx_explorer.worker.virtual_gpu",  # it must set up the GPU before
        "fx_explorer.program.recording_children",
        "fx_explorer.instruments.bench.measure.contender",
        "fx_explorer.instruments.numerics.measure.process",
        "fx_explorer.instruments.kernels.measure.kernel_bench",
        "fx_explorer.instruments.kernels.measure.kernel_builder",
    ],
)
def test_what_begins_before_torch_is_imported_does_not_load_it(module: str) -> None:
    assert "torch" not in heavy_modules_after(f"import {module}")


def test_a_process_that_may_compile_nothing_does_not_load_what_writes_sessions() -> None:
    program = (
        "import sys, fx_explorer.program.recording_children\n"
        "sys.exit('fx_explorer.program.guarded_writer' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


LACKING = (
    "textual",
    "rich",
    "pygments",
    "libcst",
    "tomli",
    "fx_explorer.plugins",  # a plug-in is of the process that draws
    "fx_explorer.plugin_loading",
)


def test_what_runs_in_the_users_interpreter_imports_torch_and_the_standard_library_alone() -> None:
    """A contract cannot see what the ``__init__`` of a package around imports."""
    program = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({LACKING!r}))  # None: an import of it fails
import fx_explorer
for package in ("worker", "program", "instruments", "capture"):
    folder = [f"{{path}}/{{package}}" for path in fx_explorer.__path__]
    names = [module.name for module in pkgutil.walk_packages(folder, f"fx_explorer.{{package}}.", onerror=print)]
    for name in names:
        if package != "instruments" or ".measure" in name:
            importlib.import_module(name)
            print(name)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert "fx_explorer.instruments.ledger.measure.call_measurement" in ended.stdout
