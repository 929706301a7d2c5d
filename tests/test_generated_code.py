"""Recording must not change the compiler's work: generated code is the same, comments aside, with and without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.common import cold_compile
from benchmarks.compare_code import difference, recorded_code, without_comments, written_code

CHEAP_MODELS = ["mlp", "convnet", "transformer", "llama1", "regions"]


@pytest.mark.parametrize("model", CHEAP_MODELS)
def test_the_code_of_a_bare_compile_is_the_code_in_the_session(
    model: str, captured_model: Callable[..., Path], tmp_path: Path
) -> None:
    cold_compile(model, "bare", tmp_path)
    bare = written_code(tmp_path / "inductor")  # Inductor's own files, written with nothing of ours in the process
    assert len(bare) == 2, "a forward and a backward"
    assert difference(bare, recorded_code(captured_model(model))) == ""


def test_a_change_of_generated_code_is_noticed() -> None:
    assert without_comments("a = b // 2  # why\n") == without_comments("a = b // 2\n")
    assert without_comments("a = b // 2\n") != without_comments("a = b // 3\n")
    kernel = "k = cpp(r'''\nauto x = y; // {}\n''')\n"
    assert without_comments(kernel.format("one")) == without_comments(kernel.format("two"))
    assert without_comments(kernel) != without_comments(kernel.replace("y;", "z;"))
