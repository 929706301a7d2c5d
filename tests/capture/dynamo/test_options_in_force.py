"""These tests compare the arguments of torch.compile, the stance and the configs, in this process,
with torch's own values.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo import eval_frame

import fx_explorer
from fx_explorer.capture.options_in_force import with_those_wanted
from fx_explorer.capture.torch_compat import versions
from fx_explorer.model import CONSOLE, STANCE, OptionInForce
from fx_explorer.session import SessionReader

HERE = Path(__file__)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


def recorded(path: Path, program: Callable[[], object]) -> list[OptionInForce]:
    with fx_explorer.record(path / "one.fxs", build=False):
        program()
    with SessionReader(path / "one.fxs") as reader:
        return reader.rows(OptionInForce)


def given(rows: list[OptionInForce], function: str) -> dict[str, object]:
    """Return the arguments that are not the default."""
    return {
        row.name: json.loads(row.value)
        for row in rows
        if row.function == function and row.set_by != "default"
    }


def line_of(words: str) -> int:
    """The line of this file that has these words first."""
    return next(
        number for number, line in enumerate(HERE.read_text().splitlines(), 1) if words in line
    )


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


def test_every_way_to_call_torch_compile_is_seen_with_its_line(tmp_path: Path) -> None:
    def program() -> None:
        @torch.compile(dynamic=True, backend="eager")  # as a decorator
        def decorated(x: torch.Tensor) -> torch.Tensor:
            return x.sin()

        def plain(x: torch.Tensor) -> torch.Tensor:
            return x.cos()

        torch.compile(plain, mode="reduce-overhead")  # as a function
        functools.partial(torch.compile, fullgraph=True)(Net())  # by another function
        module = torch.nn.Linear(2, 2)
        module.compile(options={"max_fusion_size": 3})  # by the module

    rows = recorded(tmp_path, program)
    inside = f"{inspect.currentframe().f_code.co_qualname}.<locals>.program.<locals>"  # type: ignore[union-attr]
    assert given(rows, f"{inside}.decorated") == {
        "compile.dynamic": True,
        "compile.backend": "eager",
    }
    assert given(rows, f"{inside}.plain") == {"compile.mode": "reduce-overhead"}
    assert given(rows, "Net") == {"compile.fullgraph": True}
    assert given(rows, "Linear") == {
        "compile.options": {"max_fusion_size": 3},
        "inductor.max_fusion_size": 3,
    }
    lines = {row.line for row in rows if row.set_by == "program"}
    assert lines == {
        line_of(f"# {words}\n"[:-1])
        for words in ("as a decorator", "as a function", "by another", "by the module")
    }
    assert {row.file for row in rows if row.set_by == "program"} == {__file__}


def test_what_was_not_given_is_the_default_of_the_signature(tmp_path: Path) -> None:
    rows = recorded(tmp_path, lambda: torch.compile(Net()))
    signature = inspect.signature(torch.compile).parameters
    for row in rows:
        if row.name.startswith("compile."):
            default = signature[row.name.removeprefix("compile.")].default
            assert (json.loads(row.value), row.set_by) == (
                default or ("inductor" if "backend" in row.name else default),
                "default",
            )


def test_what_is_no_plain_data_is_named_and_not_printed(tmp_path: Path) -> None:
    def my_backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        return module.forward

    def keep_all(guards: list[object]) -> list[bool]:
        return [True] * len(guards)

    rows = recorded(
        tmp_path,
        lambda: torch.compile(Net(), backend=my_backend, options={"guard_filter_fn": keep_all}),
    )
    assert str(given(rows, "Net")["compile.backend"]).endswith("my_backend")
    assert str(given(rows, "Net")["compile.options"]["guard_filter_fn"]).endswith("keep_all")  # type: ignore[index]


def test_torch_compile_is_the_original_again_behind_the_block(tmp_path: Path) -> None:
    before = torch.compile
    with fx_explorer.record(tmp_path / "one.fxs", build=False):
        assert inspect.signature(torch.compile) == inspect.signature(before)
        assert torch.compile.__doc__ == before.__doc__
    assert torch.compile is before


def test_a_torch_compile_inside_compiled_code_is_traced_as_without_us(tmp_path: Path) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def outer(x: torch.Tensor) -> torch.Tensor:
        return torch.compile(inner, backend="eager")(x) + 1

    def graphs_and_breaks() -> tuple[int, int]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.compile(outer, backend="eager")(torch.ones(2))
        counters = torch._dynamo.utils.counters
        return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())

    bare = graphs_and_breaks()
    with fx_explorer.record(tmp_path / "one.fxs", build=False):
        assert graphs_and_breaks() == bare


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_what_torch_compiles_for_itself_is_no_call_of_the_program(tmp_path: Path) -> None:
    """flex_attention compiles itself with another backend when it is called eagerly."""
    from torch.nn.attention.flex_attention import flex_attention

    query = torch.ones(1, 1, 16, 16)
    calls: list[object] = []
    original = torch.compile

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    torch.compile = counting  # type: ignore[assignment]
    try:
        rows = recorded(tmp_path, lambda: flex_attention(query, query, query))
    finally:
        torch.compile = original
    assert calls
    assert [row for row in rows if row.name.startswith("compile.")] == []


@pytest.mark.parametrize(
    ("given", "wanted", "passed"),
    [
        ({"mode": "default"}, {"fullgraph": True}, {"mode": "default", "fullgraph": True}),
        ({"options": {"a": 1}}, {"mode": "max-autotune"}, {"mode": "max-autotune"}),
        ({"mode": "max-autotune"}, {"options": {"a": 1}}, {"options": {"a": 1}}),
        ({"mode": "max-autotune"}, {"mode": None}, {"mode": None}),
        (
            {"mode": "max-autotune", "dynamic": True},
            {"backend": "eager"},
            {"backend": "eager", "dynamic": True},
        ),
        (
            {"mode": "max-autotune"},
            {"backend": "inductor"},
            {"mode": "max-autotune", "backend": "inductor"},
        ),
        (
            {"mode": "max-autotune", "backend": "inductor"},
            {"backend": "inductor"},
            {"mode": "max-autotune", "backend": "inductor"},
        ),
    ],
)
def test_arguments_that_exclude_each_other_are_never_passed_together(
    given: dict[str, Any], wanted: dict[str, Any], passed: dict[str, Any]
) -> None:
    assert with_those_wanted(given, wanted) == passed


def test_stances_are_seen_with_the_line_that_set_them(tmp_path: Path) -> None:
    def program() -> None:
        compiled = torch.compile(lambda x: x.sin(), backend="eager")
        with torch.compiler.set_stance("force_eager"):  # in a block
            compiled(torch.ones(2))
        compiled(torch.ones(2))
        torch.compiler.set_stance("fail_on_recompile")  # for good

    rows = [row for row in recorded(tmp_path, program) if row.name == STANCE]
    told = [(json.loads(row.value), row.set_by, row.line) for row in rows]
    assert told == [
        ("force_eager", "program", line_of("# in a block")),
        ("default", "default", 0),
        ("fail_on_recompile", "program", line_of("# for good")),
    ]


def test_configs_are_those_that_torch_reads_while_it_compiles(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def looking(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        seen.append({name: _torch_says(name) for name in CONSOLE if _torch_says(name) is not None})
        return module.forward

    def program() -> None:
        with torch._dynamo.config.patch(recompile_limit=3, capture_scalar_outputs=True):
            torch.compile(lambda x: x.sin(), backend=looking)(torch.ones(2))

    rows = recorded(tmp_path, program)
    ours = {row.name: json.loads(row.value) for row in rows if not row.name.startswith("compile")}
    assert ours == {name: value for name, value in seen[0].items() if not _is_deprecated(name)}
    changed = {
        row.name for row in rows if row.set_by == "program" and not row.name.startswith("compile")
    }
    assert changed == {"dynamo.recompile_limit", "dynamo.capture_scalar_outputs"}


def _torch_says(full_name: str) -> Any:
    group, _, name = full_name.partition(".")
    module = {
        "dynamo": torch._dynamo,
        "inductor": torch._inductor,
        "functorch": torch._functorch,
    }.get(group)
    return module.config.get_config_copy().get(name) if module else None  # type: ignore[attr-defined]


def _is_deprecated(full_name: str) -> bool:
    """To read such an entry would warn the user."""
    group, _, name = full_name.partition(".")
    return bool(getattr(getattr(torch, f"_{group}").config._config[name], "deprecated", False))


def test_a_value_that_changes_between_compiles_is_told_twice(tmp_path: Path) -> None:
    def program() -> None:
        for limit in (3, 5):
            with torch._dynamo.config.patch(recompile_limit=limit):
                torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(limit))

    values = [
        row.value for row in recorded(tmp_path, program) if row.name == "dynamo.recompile_limit"
    ]
    assert values == ["3", "5"]


# releases


def test_the_stances_are_those_that_torch_tells_apart() -> None:
    """Second source: what the function that obeys a stance compares it with."""
    tree = ast.parse(inspect.getsource(eval_frame._callback_from_stance))
    compared = {
        node.comparators[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and _is_text(node)
    }  # type: ignore[attr-defined]
    assert set(versions.stances()) == compared


def _is_text(node: ast.Compare) -> bool:
    return isinstance(node.comparators[0], ast.Constant) and isinstance(
        node.comparators[0].value, str
    )


def test_a_release_that_declares_its_stances_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from typing import Literal

    monkeypatch.setattr(eval_frame, "StanceStr", Literal["default", "of_tomorrow"], raising=False)
    assert versions.stances() == ("default", "of_tomorrow")


def test_a_release_without_docstring_has_no_stances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(eval_frame, "StanceStr", raising=False)
    monkeypatch.setattr(torch.compiler.set_stance, "__doc__", None)
    assert versions.stances() == ()


def test_the_default_backend_is_named_whether_the_signature_does_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert versions.compile_parameters()["backend"] == "inductor"

    def compile(
        model: object = None, *, backend: str = "eager", fullgraph: bool = False
    ) -> None: ...

    monkeypatch.setattr(torch, "compile", compile)
    assert versions.compile_parameters() == {"backend": "eager", "fullgraph": False}


def test_every_stance_in_torch_docstring_is_offered() -> None:
    named = re.findall(r'- "(\w+)":', torch.compiler.set_stance.__doc__ or "")
    assert set(named) == set(versions.stances())
