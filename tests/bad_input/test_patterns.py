"""These tests check that every regular expression of the package takes a time that grows with the
length of a text, or is given short texts only.
"""

from __future__ import annotations

import pytest

from fx_explorer.analysis.input_names import LONGEST_NAME
from fx_explorer.highlight import LANGUAGES, LONGEST_COLOURED
from fx_explorer.torch_texts import LONGEST_LINE
from tests.bad_input.patterns import LONG, Attack, Pattern, ends_in_time, patterns, slowest
from tests.exhaustive import one_of

GIVEN_ONE_LINE = (
    "instruments/compile_time/caches _REASONS",
    "instruments/guards/guard_tree _KEYS",
    "instruments/guards/guard_tree _STRIDE",
    "instruments/guards/guard_tree _TENSOR",
    "instruments/kernels/instructions _CONSTANT",
    "instruments/kernels/assembly_text _PTX",
    "instruments/kernels/assembly_text _SASS",
    "instruments/kernels/live_registers _OPERANDS",
    "instruments/kernels/live_registers _TARGET",
    "instruments/memory/sizes _ITEM",
    "analysis/naming _RESUME_AT",
    "analysis/naming _CALLS",
    "analysis/naming sub",
    "instruments/ranks/path_taken _NOTED_LINE",
    "instruments/recompiles/causes _BACKENDS",
    "capture/dynamo/failed_guards _KEY",
    "capture/dynamo/failed_guards _OF_A_DICT",
    "capture/dynamo/failed_guards _MAPPING",
    "capture/dynamo/guard_rows _NOTED_LINE",
    "capture/dynamo/failed_guards _GONE_ATTRIBUTE",
    "readers/torch_log_text _RECOMPILING",
    "readers/torch_trace/dynamo_records _NOTED_LINE",
    "torch_texts/printed_guard_tree _SOURCE",
    "torch_texts/reports _ABOUT",
    "torch_texts/reports _PLACE",
    "torch_texts/reports _PLACE_OF_REASON",
    "program/explaining _FAILED_STANCE",
    "program/explaining _GUARD",
    "program/explaining _RECOMPILED",
)
"""What sees a line of ``torch_texts.bounded``, or no text of more characters than that."""

GIVEN_AT_MOST: dict[str, int] = {
    **dict.fromkeys(GIVEN_ONE_LINE, LONGEST_LINE),
    **{f"highlight rules of {language}": LONGEST_COLOURED for language in LANGUAGES},
    "analysis/input_names _OF_MODULE": LONGEST_NAME,
    "capture/option_catalogue search": 10_000,  # a docstring of torch's
    "model/secret_arguments _QUOTED": 20_000,  # linear, with a factor of its bounds
}
"""Module and name → the characters that its callers give it, where it is not linear."""


@pytest.fixture(scope="module")
def every() -> list[Pattern]:
    return list(patterns())


def test_a_pattern_reads_a_long_text_in_time(every: list[Pattern]) -> None:
    """One pattern of forty; ``make exhaustive`` tries all."""
    assert len(every) > 400
    attacked: list[tuple[Pattern, list[Attack]]]
    attacked = [(pattern, slowest(pattern)) for pattern in one_of(40, every)]
    too_slow = [
        f"{pattern.key}, {_length(pattern):,} characters: {attack}"
        for pattern, attacks in attacked
        for attack in attacks
        if not ends_in_time(pattern, attack.text(_length(pattern), pattern))
    ]
    assert not too_slow, "\n".join(too_slow)


def _length(pattern: Pattern) -> int:
    return GIVEN_AT_MOST.get(pattern.key, LONG)


def test_what_is_said_of_a_pattern_is_of_one_that_is_there(every: list[Pattern]) -> None:
    named = {key for key in GIVEN_AT_MOST if not key.startswith("highlight ")}
    assert named <= {pattern.key for pattern in every}
