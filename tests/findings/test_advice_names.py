"""These tests check that what advice names exists in the torch that is installed: functions and
options by their full names, options of trials, variables of the environment, backends and modes.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch

import fx_explorer

PACKAGE = Path(fx_explorer.__file__).parent

SPEAKING = (
    "findings",
    "overview",
    "instruments/breaks",
    "instruments/fixes",
    "instruments/ledger",
    "instruments/recompiles",
)
"""Folders whose texts tell the user what to do."""

IN_OTHER_RELEASES = {
    "torch.compiler.precompile": "of torch's nightly builds; named where a program called it",
}
"""Names in these texts that the installed torch need not have, with the reason."""

NAME = re.compile(r"(?<![\w./@-])torch(?:\.(?!_\b)[A-Za-z_]\w*)+")
VARIABLE = re.compile(r"\b(?:TORCH|TORCHDYNAMO|TORCHINDUCTOR|INDUCTOR)_[A-Z][A-Z_]+\b")
BACKEND = re.compile(r'\bbackend="(?P<name>\w+)"')
MODE = re.compile(r'\bmode="(?P<name>[\w-]+)"')
OPTION = re.compile(r"(?P<package>dynamo|inductor)\.(?P<name>\w[\w.]*)")
"""Matches the name of an option that a trial sets: ``dynamo.capture_scalar_outputs``."""

VALUE = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for what a text is filled with. A name that ends there is not a whole one."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string of the package's code, with what it is filled with as ``…``."""

    place: str
    content: str


def string_in(node: ast.AST) -> str | None:
    """Return what a string or f-string says; None for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(string_in(part) or VALUE for part in node.values)


def strings_below(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and content of each string below a node, except docstrings."""
    for child in ast.iter_child_nodes(node):
        content = string_in(child)
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if content is None:
            yield from strings_below(child)
        else:
            yield getattr(child, "lineno", 0), content


@cache
def texts() -> tuple[Text, ...]:
    """Return every string of the folders that tell the user what to do."""
    rows = []
    for folder in SPEAKING:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            place = path.relative_to(PACKAGE)
            strings = strings_below(ast.parse(path.read_text(encoding="utf-8")))
            rows.extend(Text(f"{place}:{line}", content) for line, content in strings)
    return tuple(rows)


def names_by(pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the names that a pattern finds in the texts → the first place that has it."""
    places: dict[str, str] = {}
    for text in texts():
        # Patterns for torch's messages have the same names, with a backslash before each point.
        content = text.content.replace("\\.", ".")
        for match in pattern.finditer(content):
            name = match.groupdict().get("name") or match[0]
            if content[match.end() : match.end() + 1] == VALUE:
                name = name.rpartition(".")[0]
            if name:
                places.setdefault(name, text.place)
    return places


def exists(name: str) -> bool:
    """Return whether a full name leads to something, module by module and attribute by
    attribute.
    """
    whole, found = "torch", torch
    for part in name.split(".")[1:]:
        whole = f"{whole}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(whole)
        except ModuleNotFoundError:
            return False
    return True


def test_functions_and_options_exist() -> None:
    names = names_by(NAME)
    assert len(names) > 60
    here = names.keys() - IN_OTHER_RELEASES.keys()
    missing = {name: names[name] for name in here if not exists(name)}
    assert not missing


@pytest.mark.parametrize(
    "name", ["torch.compiler.no_such", "torch._dynamo.config.no_such", "torch.no_such.module"]
)
def test_a_name_that_torch_does_not_have_is_noticed(name: str) -> None:
    assert not exists(name)


def test_each_exception_is_still_named() -> None:
    assert names_by(NAME).keys() >= IN_OTHER_RELEASES.keys()


def test_options_that_trials_set_exist() -> None:
    missing = {}
    checked = 0
    for text in texts():
        option = OPTION.fullmatch(text.content)
        if option is None:
            continue
        checked += 1
        if not exists(f"torch._{option['package']}.config.{option['name']}"):
            missing[text.content] = text.place
    assert checked > 5
    assert not missing


def test_variables_of_the_environment_are_read_by_torch() -> None:
    variables = names_by(VARIABLE)
    assert "TORCHINDUCTOR_CACHE_DIR" in variables
    root = Path(torch.__file__).parent
    whole = ""
    for folder in ("_dynamo", "_inductor", "_functorch", "_logging", "compiler", "utils", "fx"):
        files = (root / folder).rglob("*.py")
        whole += "\n".join(path.read_text(encoding="utf-8") for path in files)
    missing = {name: place for name, place in variables.items() if name not in whole}
    assert not missing


def test_backends_and_modes_exist() -> None:
    backends, modes = names_by(BACKEND), names_by(MODE)
    assert "aot_eager" in backends
    assert "max-autotune" in modes
    known = {*torch.compiler.list_backends(exclude_tags=()), *torch._inductor.list_mode_options()}
    missing = {name: place for name, place in {**backends, **modes}.items() if name not in known}
    assert not missing
