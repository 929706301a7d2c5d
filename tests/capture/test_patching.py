"""These tests check how functions of torch are replaced for a while."""

import contextlib
from collections.abc import Callable
from itertools import permutations
from types import SimpleNamespace

import pytest

from fx_explorer.capture.torch_compat.patching import patched


def adding(text: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    return lambda original: lambda: f"{original()}{text}"


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_the_original_is_back_when_the_last_of_several_blocks_ends(order: tuple[str, ...]) -> None:
    owner = SimpleNamespace(function=lambda: "torch")
    original = owner.function
    for _ in range(2):
        blocks = {name: contextlib.ExitStack() for name in "abc"}
        for name, block in blocks.items():
            block.enter_context(patched(owner, "function", adding(name)))
        assert owner.function() == "torchabc"
        for name in order:
            assert owner.function is not original
            blocks[name].close()
        assert owner.function is original


def test_what_the_program_puts_over_ours_is_left() -> None:
    owner = SimpleNamespace(function=lambda: "torch")
    with patched(owner, "function", adding(" ours")):
        ours = owner.function
        owner.function = lambda: f"{ours()} theirs"
    theirs = owner.function
    assert owner.function() == "torch ours theirs"
    with patched(owner, "function", adding(" again")):
        assert owner.function() == "torch ours theirs again"
    assert owner.function is theirs
