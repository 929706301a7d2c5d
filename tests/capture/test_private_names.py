"""Private names of torch's: each is imported in one file, and looked for when it is needed."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
import torch

from benchmarks.house import private_names_in
from fx_explorer.capture.torch_compat import private_names
from fx_explorer.capture.torch_compat.private_names import MODULE_OF, SUBMODULES
from fx_explorer.capture.torch_compat.versions import known_options
from tests.conftest import ROOT

TABLE = Path(str(private_names.__file__))

PATCHED_IN_C = {
    "fx_explorer/capture/virtual_gpu/fake_cuda_tensors.py",
    "fx_explorer/capture/virtual_gpu/on_the_cpu.py",
    "fx_explorer/capture/virtual_gpu/operators.py",
    "fx_explorer/capture/virtual_gpu/torch_cuda.py",
}
"""Files that read or replace attributes of ``torch._C`` for a GPU that is not there."""

IN_CHILDREN = "fx_explorer/program/recording_children.py"
"""It replaces ``torch._dynamo.optimize`` in a process that may never need the rest of ours."""

NAMES_OF_NODES = "fx_explorer/capture/recording/fx_graphs.py"
"""It has another answer where torch lacks ``_get_qualified_name``."""


@pytest.mark.parametrize("name", MODULE_OF)
def test_a_private_name_is_what_torch_calls_so(name: str) -> None:
    if "triton" in MODULE_OF[name]:
        pytest.importorskip("triton")
    module = importlib.import_module(MODULE_OF[name])
    assert getattr(private_names, name) is getattr(module, name)


@pytest.mark.parametrize("name", SUBMODULES)
def test_a_private_module_is_what_torch_calls_so(name: str) -> None:
    if "triton" in SUBMODULES[name]:
        pytest.importorskip("triton")
    module = getattr(private_names, name)
    assert module.__name__ == SUBMODULES[name]
    if name.endswith("_config"):
        assert callable(module.patch), "its options can be set for a while"


def test_mypy_is_told_of_the_same_names_in_the_same_modules() -> None:
    imported, modules = {}, {}
    for node in ast.walk(ast.parse(TABLE.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("torch"):
            imported |= {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            modules[ast.unparse(node.targets[0])] = ast.unparse(node.value)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Any":
            name = ast.unparse(node.target)
            modules[name] = SUBMODULES[name]
    names = {name: f"{module}.{name}" for name, module in MODULE_OF.items()}
    assert imported | modules == names | SUBMODULES


def test_no_other_file_has_a_private_name_of_torchs() -> None:
    having = set()
    for file in (ROOT / "fx_explorer").rglob("*.py"):
        text = file.read_text()
        if "torch" in text and private_names_in(ast.parse(text)):
            having.add(file.relative_to(ROOT).as_posix())
    table = TABLE.relative_to(ROOT).as_posix()
    assert having == {table, IN_CHILDREN, NAMES_OF_NODES} | PATCHED_IN_C


def test_a_name_that_a_release_lacks_costs_only_who_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MODULE_OF, "LackedByThisRelease", "torch._guards")
    message = f"torch {torch.__version__} has no torch._guards.LackedByThisRelease"
    with pytest.raises(ImportError) as raised:
        from fx_explorer.capture.torch_compat.private_names import (  # noqa: F401
            LackedByThisRelease,
        )
    assert str(raised.value) == message
    from fx_explorer.capture.torch_compat.private_names import TracingContext

    assert TracingContext is torch._guards.TracingContext


def test_who_asks_later_gets_what_stands_there_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from fx_explorer.capture.torch_compat.private_names import detect_fake_mode as before

    monkeypatch.setattr(torch._guards, "detect_fake_mode", len)
    from fx_explorer.capture.torch_compat.private_names import detect_fake_mode as after

    assert (before, after) != (len, before)
    assert after is len


def test_a_module_of_options_that_a_release_lacks_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUBMODULES, "lacked_config", "torch._lacked.config")
    monkeypatch.setitem(SUBMODULES, "lacked", "torch._lacked")
    config = private_names.lacked_config
    assert known_options(config, "debug") == []
    with config.patch({}):
        pass
    with pytest.raises(AttributeError, match="debug"):
        config.patch(debug=True)
    with pytest.raises(ImportError, match=r"^torch \S+ has no torch\._lacked$"):
        from fx_explorer.capture.torch_compat.private_names import lacked  # noqa: F401


def test_a_name_that_is_not_listed_is_none_of_the_module() -> None:
    assert not hasattr(private_names, "not_listed")
