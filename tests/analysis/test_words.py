"""How a fact is put into one line."""

from __future__ import annotations

from fx_explorer.analysis.words import compile_error


def test_of_a_triton_error_the_place_and_what_is_wrong_are_said() -> None:
    error = "CompilationError: at 4:20:\ndef k(a):\n    tl.laod(a)\n    ^\nAttributeError(\"no attribute 'laod'\")"
    assert compile_error(error) == "CompilationError: at 4:20: AttributeError(\"no attribute 'laod'\")"


def test_another_compile_error_is_its_first_line() -> None:
    assert compile_error("ptxas fatal: no such target\nptxas info: none") == "ptxas fatal: no such target"
