"""These tests check the edits of a user's file that trials make."""

from __future__ import annotations

import ast
import copy

import pytest
import torch

from fx_explorer.findings.compile_edits import (
    after_import_of_torch,
    compiling_in_place,
    compiling_its_forward,
    setting_on_model,
    without_asking,
)


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        (
            "m.net.compile(dynamic=True)",
            "m.net.forward = torch.compile(m.net.forward, dynamic=True)",
        ),
        ("m = torch.compile(m)", None),
        ("m(1)", None),
        ("m.compile(", None),
    ],
)
def test_a_module_is_compiled_by_its_forward(text: str, edited: str | None) -> None:
    assert compiling_its_forward(text, 1) == edited


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("a = torch.compile(a)", "a.compile()"),
        ("é = 1; a = torch.compile(\n  make(),\n  mode='x'); b = 2", None),
        ("a = torch.compile(make(), mode='x')", "a = make(); a.compile(mode='x')"),
        ("self.a = torch.compile(self.a)", "self.a.compile()"),
        ("a = torch.compile(backend='eager')", None),
        ("a = make()", None),
    ],
)
def test_a_module_is_compiled_in_place(text: str, edited: str | None) -> None:
    result = compiling_in_place(text, 1)
    if edited is None and result is not None:
        # Two statements on a line: the one that compiles is changed, in any number of lines.
        assert result == "é = 1; a = make(); a.compile(mode='x'); b = 2\n\n"
    else:
        assert result == edited


def test_a_setting_is_made_after_torch_is_imported() -> None:
    assert after_import_of_torch("import os\nimport torch\nx = 1", "f()") == (
        "import os\nimport torch; f()\nx = 1"
    )
    assert after_import_of_torch("import os", "f()") is None


def test_a_setting_is_made_on_the_model_that_a_statement_makes() -> None:
    text = "model = GPT2LMHeadModel(\n    config)\nprint(model)"
    edited = setting_on_model(text, ast.parse(text), "a = 1")
    assert edited is not None
    assert edited.text == "model = GPT2LMHeadModel(\n    config); model.a = 1\nprint(model)"
    assert setting_on_model("x = f()", ast.parse("x = f()"), "a = 1") is None


def test_a_module_of_torch_is_compiled_by_its_forward() -> None:
    edited = compiling_in_place("a = torch.compile(f(), mode='x')", 1, by_forward=True)
    assert edited == "a = f(); a.forward = torch.compile(a.forward, mode='x')"


def test_calls_that_ask_whether_it_is_compiled_become_false() -> None:
    text = "x = 1\nif is_compiling() or torch.compiler.is_compiling():\n    pass\n"
    edited = without_asking(text, ast.parse(text))
    assert edited == (2, "x = 1\nif False or False:\n    pass\n")
    assert without_asking("x = 1", ast.parse("x = 1")) is None


def test_a_copy_of_a_module_with_a_compiled_forward_has_the_originals_weights() -> None:
    """That is what COPY_BEFORE says; compiled in place, a copy has its own."""
    for in_place in (False, True):
        layer = torch.nn.Linear(2, 2)
        if in_place:
            layer.compile(backend="eager")
        else:
            layer.forward = torch.compile(layer.forward, backend="eager")
        layer(torch.ones(1, 2))
        copied = copy.deepcopy(layer)
        with torch.no_grad():
            copied.weight.zero_()
            copied.bias.zero_()
        assert bool((copied(torch.ones(1, 2)) == 0).all()) == in_place
