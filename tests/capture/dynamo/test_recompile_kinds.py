"""These tests check the report on every kind of guard that fails: the name, the line, the old and
new value, and the remedy. torch's GuardBuilder has some forty kinds; those that a program can make
fail are made to fail here.
"""

import collections
import contextlib
import enum
import functools
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from fx_explorer.capture.dynamo.failed_guards import MOST_NAMED, keys_change
from fx_explorer.capture.recording.described import described
from fx_explorer.instruments.recompiles.causes import causes
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import one_of

X, Y = torch.ones(4), torch.ones(4)


def added(x: torch.Tensor, table: Any) -> torch.Tensor:
    for key in table:
        x = x + table[key]
    return x


def has_a(x: torch.Tensor, table: Any) -> torch.Tensor:
    return x + 1 if "a" in table else x - 1


def summed(x: torch.Tensor, items: Any) -> torch.Tensor:
    for item in items:
        x = x + item
    return x


def flagged(x: torch.Tensor, thing: Any) -> torch.Tensor:
    return x + 1 if hasattr(thing, "flag") else x - 1


def times(x: torch.Tensor, k: Any) -> torch.Tensor:
    return x * k


def calling(x: torch.Tensor, function: Any) -> torch.Tensor:
    return function(x)


def pair(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum() + y.sum()


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def with_array(x: torch.Tensor, array: Any) -> torch.Tensor:
    return x + torch.from_numpy(array)


def coloured(x: torch.Tensor, colour: Any) -> torch.Tensor:
    return x + 1 if colour is Colour.RED else x - 1


def in_eights(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] % 8 == 0 else x - 1


def few(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] < 10 else x - 1


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Thing:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()
        self.layers = nn.ModuleList([nn.ReLU()])
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.act(x * 2) + self.weight.sum()


class Settings:
    """Looks attributes up in its own way, as the configurations of transformers do."""

    other_names: ClassVar = {"sort": "kind"}

    def __init__(self) -> None:
        self.kind: str | None = None

    def __getattribute__(self, name: str) -> Any:
        if name != "other_names" and name in super().__getattribute__("other_names"):
            name = super().__getattribute__("other_names")[name]
        return super().__getattribute__(name)


class Configured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if self.settings.kind is None else x - 1


def set_a_kind(compile_: Compile) -> None:
    model = Configured()
    compiled = compile_(model)
    compiled(X)
    model.settings.kind = "some"
    compiled(X)


class Passing(torch.overrides.TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


Program = Callable[[Compile], None]


def calls(
    function: Any, *arguments: tuple[Any, ...], within: Any = contextlib.nullcontext, **options: Any
) -> Program:
    """The last call stands in ``within``."""

    def program(compile_: Compile) -> None:
        compiled = torch.compile(function, backend="eager", **options)
        for given in arguments[:-1]:
            compiled(*given)
        context: AbstractContextManager[Any] = within()
        with context:
            compiled(*arguments[-1])

    return program


def changed(change: Callable[[Model], object]) -> Program:
    def program(compile_: Compile) -> None:
        model = Model()
        compiled = compile_(model)
        compiled(X)
        change(model)
        compiled(X)

    return program


class Told(NamedTuple):
    kind: str
    name: str
    words: str
    """In the sentence."""
    remedy: str
    has_line: bool = True


ones = torch.ones
NOTHING = "both compilations stay in use"

CASES: dict[str, tuple[Program, Told]] = {
    "a key": (
        calls(added, (X, {"a": X, "b": X}), (X, {"a": X, "c": X})),
        Told(
            "keys",
            "table",
            "'b' is gone and 'c' is new",
            ("keys of table, with their order, are constants"),
        ),
    ),
    "a key more": (
        calls(added, (X, {"a": X}), (X, {"a": X, "c": X})),
        Told("keys", "table", "'c' is new", "keys of table"),
    ),
    "a key less": (
        calls(added, (X, {"a": X, "c": X}), (X, {"a": X})),
        Told("keys", "table", "'c' is gone", "keys of table"),
    ),
    "order of keys": (
        calls(added, (X, {"a": X, "b": X}), (X, {"b": X, "a": X})),
        Told("keys", "table", "in another order: 'a', 'b' before, 'b', 'a' now", "in their order"),
    ),
    "numbers as keys": (
        calls(added, (X, {1: X}), (X, {2: X})),
        Told("keys", "table", "1 is gone and 2 is new", "keys of table"),
    ),
    "keys of an OrderedDict": (
        calls(added, (X, collections.OrderedDict(a=X)), (X, collections.OrderedDict(b=X))),
        Told("keys", "table", "'a' is gone and 'b' is new", "keys of table"),
    ),
    "keys of a mapping": (
        calls(added, (X, types.MappingProxyType({"a": X})), (X, types.MappingProxyType({"b": X}))),
        Told("keys", "table", "'a' is gone and 'b' is new", "keys of table"),
    ),
    "in a dict": (
        calls(has_a, (X, {"a": 1}), (X, {"b": 1})),
        Told("contains", "table", "'a' was in table", NOTHING),
    ),
    "not in a dict": (
        calls(has_a, (X, {"b": 1}), (X, {"a": 1})),
        Told("contains", "table", "'a' is now in table", NOTHING),
    ),
    "in a set": (
        calls(has_a, (X, {"a"}), (X, {"b"})),
        Told("contains", "table", "'a' was in table", NOTHING),
    ),
    "from nan": (
        calls(times, (X, float("nan")), (X, 2.0)),
        Told("number", "k", "k was nan and now is 2.0", "dynamic=True"),
    ),
    "an iterator": (
        calls(summed, (X, iter((1, 2))), (X, iter((1, 2, 3)))),
        Told("iterator", "items", "had 2 items", "list or tuple"),
    ),
    "a range iterator": (
        calls(summed, (X, iter(range(3))), (X, iter(range(5)))),
        Told("iterator", "items", "(0, 3, 1)", "list or tuple"),
    ),
    "an attribute more": (
        calls(flagged, (X, Thing()), (X, Thing(flag=1))),
        Told("has", "thing", "lacked the attribute flag", "same attributes"),
    ),
    "an attribute less": (
        calls(flagged, (X, Thing(flag=1)), (X, Thing())),
        Told("has", "thing", "attribute", "same attributes"),
    ),
    "a mode": (
        calls(plain, (X,), (X,), within=Passing),
        Told("modes", "", "__torch_function__ modes", NOTHING, has_line=False),
    ),
    "a global setting": (
        calls(plain, (X,), (X,), within=deterministic),
        Told(
            "global_state", "", "deterministic_algorithms", "before the first call", has_line=False
        ),
    ),
    "autocast": (
        calls(plain, (X,), (X,), within=functools.partial(torch.autocast, "cpu", torch.bfloat16)),
        Told("global_state", "", "autocast", "before the first call", has_line=False),
    ),
    "another function": (
        calls(calling, (X, lambda x: x + 1), (X, lambda x: x - 1)),
        Told("function", "function", "function is another function now", NOTHING),
    ),
    "another builtin": (
        calls(calling, (X, torch.sin), (X, torch.cos)),
        Told("object", "function", "function cos", NOTHING),
    ),
    "another class": (
        calls(calling, (X, nn.ReLU()), (X, nn.GELU())),
        Told("type", "function", "now is of type GELU", "always as the same type"),
    ),
    "an enum": (
        calls(coloured, (X, Colour.RED), (X, Colour.BLUE)),
        Told("object", "colour", "Colour.BLUE", NOTHING),
    ),
    "an array's dtype": (
        calls(with_array, (X, np.ones(4)), (X, np.ones(4, dtype=np.int64))),
        Told("dtype", "array", "float64 and now is int64", NOTHING),
    ),
    "one tensor twice": (
        calls(pair, (X, Y), (X, X)),
        Told("same", "", "x, y", "a clone() is another", has_line=False),
    ),
    "no longer twice": (
        calls(pair, (X, X), (X, Y)),
        Told("same", "x", "were one tensor", "a clone() is another"),
    ),
    "equal sizes": (
        calls(pair, (ones(4), ones(4)), (ones(5), ones(6)), dynamic=True),
        Told(
            "relation",
            "y",
            "size 0 of y and size 0 of x were equal",
            "mark_dynamic(y, 0) and torch._dynamo.mark_dynamic(x, 0)",
        ),
    ),
    "a divisor": (
        calls(in_eights, (ones(8),), (ones(9),), dynamic=True),
        Told("relation", "", "(size 0 of x % 8) == 0", "branches on these sizes"),
    ),
    "a bound": (
        calls(few, (ones(8),), (ones(20),), dynamic=True),
        Told(
            "range",
            "x",
            "was 8 and now is 20; the compiled code is for 2 to 9",
            "branches on that size",
        ),
    ),
    "a sparse tensor": (
        calls(times, (X, 2), (X.to_sparse(), 2)),
        Told("kind", "x", "another kind of tensor", NOTHING),
    ),
    "a part of another class": (
        changed(lambda model: setattr(model, "act", nn.GELU())),
        Told("type", "self.act", "now is of type GELU", "Set self.act before the first call"),
    ),
    "a layer more": (
        changed(lambda model: model.layers.append(nn.ReLU())),
        Told("keys", "self.layers", "'1' is new", "self.layers"),
    ),
    "a forward of its own": (
        changed(lambda model: setattr(model.act, "forward", lambda x: x)),
        Told("has", "self.act", "attribute forward of its own", "same attributes"),
    ),
    "a setting looked up in its own way": (
        set_a_kind,
        Told(
            "value",
            "self.settings.kind",
            "was None and now is 'some'",
            "Set self.settings.kind before the first call",
        ),
    ),
    "a parameter's size": (
        changed(lambda model: setattr(model, "weight", nn.Parameter(torch.ones(5)))),
        Told("size", "self.weight", "was 4 and now is 5", "Keep self.weight at one size"),
    ),
}


@pytest.mark.parametrize("case", one_of(2, CASES))
def test_a_guard_that_fails_is_told_with_name_line_values_and_remedy(
    tmp_path: Path, case: str
) -> None:
    program, told = CASES[case]
    reader = record(tmp_path / "s.fxs", program, backend="eager")
    found = causes(reader)[0]
    assert (found.change.kind, found.change.name) == (told.kind, told.name)
    assert told.words in found.description
    assert told.remedy in found.remedy
    assert (found.file == __file__ and found.line > 0) is told.has_line
    assert failures(reader) == []


def handed_on(x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    kwargs.pop("unknown", None)  # as the wrappers around each forward of transformers do
    return scaled(x, **kwargs)


def scaled(x: torch.Tensor, k: Any = 1, y: Any = 0) -> torch.Tensor:
    return x * k + y


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"k": X}, {"k": X, "y": X}, "the call has other keyword arguments: 'y' is new"),
        ({"k": X, "y": X}, {"k": X}, "the call has other keyword arguments: 'y' is gone"),
    ],
)
def test_other_keyword_arguments_of_a_wrapper_are_named(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], words: str
) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(handed_on)
        compiled(X, **first)
        compiled(X, **second)

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    found = causes(reader)[0]
    assert words in found.description
    assert "Pass the same keyword arguments in each call" in found.remedy
    assert failures(reader) == []


def test_code_that_torch_threw_away_with_a_value_is_told(tmp_path: Path) -> None:
    """A number that ``item()`` takes out is handed to the resume function and freed after the call;
    torch then throws the version away, and asks why it does not fit without its code.
    """

    def program(compile_: Compile) -> None:
        means = []

        def noted(x: torch.Tensor) -> torch.Tensor:
            means.append(x.mean().item())
            return x * 2

        compiled = compile_(noted)
        for number in range(3):
            compiled(X + number)

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    assert failures(reader) == []
    gone = [cause for cause in causes(reader) if cause.change.kind == "gone"]
    assert len(gone) == 2
    assert "was freed, together with the code compiled for it" in gone[0].description
    assert "Avoid the break" in gone[0].remedy


def test_which_keys_are_new_is_not_told_where_the_old_ones_are_not_known() -> None:
    guards = ["len(L['kwargs']) == 2", "check_tensor(L['kwargs']['a'], Tensor)"]
    found = keys_change("L['kwargs']", {"a": 1, "b": 2, "c": 3}, guards, described)
    assert (found.old, found.new) == ("", "")
    assert (
        keys_change("L['kwargs']", {"a": 1}, [*guards, "L['kwargs']['b'] is None"], described).old
        == "'b'"
    )


def test_an_attribute_is_named_as_the_program_writes_it_where_torch_2_11_writes_how_it_was_looked_up() -> (
    None
):
    from fx_explorer.instruments.recompiles.guard_changes import change_of

    guard = "object.__getattribute__(self.config, 'problem_type') is None"
    change = change_of(
        guard, "object.__getattribute__(L['self'].config, 'problem_type')", "", "'regression'"
    )
    assert (change.kind, change.words) == (
        "value",
        "self.config.problem_type was None and now is 'regression'",
    )


def test_an_honest_word_stands_where_nothing_is_known() -> None:
    from fx_explorer.instruments.recompiles.avoided_recompiles import remedy
    from fx_explorer.instruments.recompiles.guard_changes import change_of

    change = change_of("a guard of a release to come")
    assert (change.kind, change.words) == ("other", "a guard of a release to come")
    assert remedy(change) == ""


class Loud(dict[str, int]):
    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("the program's own code")

    keys = __iter__  # type: ignore[assignment]


def test_the_keys_of_a_dict_are_read_without_code_of_the_program() -> None:
    found = keys_change("L['d']", Loud(a=1), ["list(dict.keys(L['d']))[0] == 'b'"], described)
    assert (found.old, found.new) == ("'b'", "'a'")


def test_of_many_keys_the_first_are_named() -> None:
    found = keys_change(
        "L['d']", {f"k{i}": 1 for i in range(100)}, ["list(dict.keys(L['d']))[0] == 'b'"], described
    )
    assert found.new.count("'k") == MOST_NAMED
    assert found.new.endswith("and 92 more")
