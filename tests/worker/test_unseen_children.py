"""What keeps a Python that the program starts from being seen, told by its command."""

from __future__ import annotations

import sys

import pytest

from fx_explorer.program.child_processes.children import _why_unseen


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], ""),
        (["-u"], ""),
        (["-I"], "-I"),
        (["-u", "-I"], "-I"),
        (["-uE"], "-uE"),
        (["-m", "-I"], ""),
        (["-c", "-S"], ""),
        (["-Ic", "pass"], "-Ic"),
        (["--check-hash-based-pycs", "always"], ""),
        (["train.py", "-I"], ""),
    ],
)
def test_an_option_that_keeps_python_from_its_environment_is_named(
    options: list[str], named: str
) -> None:
    told = _why_unseen(sys.executable, ["python", *options], None)
    assert told == (
        f"it was started with {named}, which keeps Python from its environment" if named else ""
    )
