"""These tests check that a function wrapped by a decorator is called by the name of the inner
function, which is the user's.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from tests.conftest import Captured, OpenedReader

PROGRAM = """
import functools

import torch
from torch import nn


def timed(function):
    @functools.wraps(function)
    def wrapper(*args, **keywords):
        return function(*args, **keywords)
    return wrapper


def plus_one(function):
    def inner(self, x):
        return function(self, x) + 1
    return inner


class Net(nn.Module):
    @timed
    def forward(self, x):
        return x.sin()


class Other(nn.Module):
    @plus_one
    def forward(self, x):
        return x.cos()


def scaled_by(factor):
    def scaled(x):
        return factor(x)
    return scaled


def factor(x):
    return x * 3


for compiled in (Net(), Other(), scaled_by(factor)):
    torch.compile(compiled, backend="eager")(torch.ones(2))
"""


def test_a_decorated_function_has_the_users_name_and_the_decorators(
    tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    """``scaled`` is no decorator's: under the name of ``factor`` the program has ``factor`` itself."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = [row.function for row in reader(captured(program)).rows(model.Compilation)]
    assert found == [
        "Net.forward (timed)",
        "Other.forward (plus_one)",
        "scaled_by.<locals>.scaled",
    ]
