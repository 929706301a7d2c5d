"""Private names of torch's that several files need: each is looked for in one place."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
import torch

from fx_explorer.capture.torch_compat import private_names
from fx_explorer.capture.torch_compat.private_names import CONFIGS, MODULES


@pytest.mark.parametrize("name", MODULES)
def test_a_shared_name_is_what_torch_calls_so(name: str) -> None:
    module = importlib.import_module(MODULES[name])
    assert getattr(private_names, name) is getattr(module, name)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_shared_config_holds_options_that_can_be_set_for_a_while(name: str) -> None:
    config = getattr(private_names, name)
    assert config.__name__ == CONFIGS[name]
    assert callable(config.patch)


def test_mypy_is_told_of_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(str(private_names.__file__)).read_text())
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("torch"):
            imported |= {alias.name: node.module for alias in node.names}
    assert imported == MODULES


def test_a_name_that_a_release_lacks_costs_only_who_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(MODULES, "LackedByThisRelease", "torch._guards")
    message = f"torch {torch.__version__} has no torch._guards.LackedByThisRelease"
    with pytest.raises(ImportError) as raised:
        from fx_explorer.capture.torch_compat.private_names import LackedByThisRelease  # noqa: F401
    assert str(raised.value) == message
    from fx_explorer.capture.torch_compat.private_names import TracingContext

    assert TracingContext is torch._guards.TracingContext


def test_a_name_that_is_not_listed_is_none_of_the_module() -> None:
    assert not hasattr(private_names, "not_listed")
