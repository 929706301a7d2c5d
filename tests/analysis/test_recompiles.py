"""These tests check recompiles; the second source is the number of compilations torch made of the
same frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.diff import difference
from fx_explorer.analysis.whole_session import totals
from fx_explorer.instruments.recompiles.avoided_recompiles import remedy
from fx_explorer.instruments.recompiles.causes import causes, limit_hits, recompiles
from fx_explorer.instruments.recompiles.guard_changes import GuardChange, change_of
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import Compile, record
from tests.sessions import Written


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "tensor 'x' size mismatch at index 0. expected 8, actual 12",
            "size 0 of x was 8 and now is 12",
        ),
        (
            "0/0: tensor 'L['x']' size mismatch at index 1. expected 8, actual 12.",
            "size 1 of x was 8 and now is 12",
        ),
        (
            "tensor 'L['batch']['ids']' dtype mismatch. expected Float, actual BFloat16",
            "the dtype of batch['ids'] was float32 and now is bfloat16",
        ),
        (
            "tensor 'x' stride mismatch at index 0. expected 8, actual 1",
            "the memory layout of x changed (stride 0 was 8 and now is 1)",
        ),
        (
            "tensor 'x' rank mismatch. expected 2, actual 3",
            "the number of dimensions of x was 2 and now is 3",
        ),
        (
            "tensor 'x' requires_grad mismatch. expected requires_grad=1",
            "requires_grad of x was True and now is False",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CUDA, BackendSelect, AutogradCUDA), "
            "actual DispatchKeySet(CPU, BackendSelect, AutogradCPU)",
            "x was on cuda and now is on cpu",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, AutogradCPU), actual DispatchKeySet(SparseCPU)",
            "x is another kind of tensor (DispatchKeySet(SparseCPU), not DispatchKeySet(CPU, AutogradCPU))",
        ),
        ("KeyError on d['k']", "d['k'] is no longer there"),
        (
            "expected type of 's' to be a tensor type, ' but found <class 'torch.nn.parameter.Parameter'>",
            "s is a tensor of another class now: torch.nn.parameter.Parameter",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(CPU, Conjugate)",
            "x is another kind of tensor (DispatchKeySet(CPU, Conjugate), not DispatchKeySet(CPU))",
        ),
        (
            "tensor 'x' Tensor device index mismatch. Expected device index to be 0, actual 1",
            "the device number of x was 0 and now is 1",
        ),
        ("power == 2", "power is no longer 2, for which the compiled code was made"),
        ("L['self'].power == 2", "self.power is no longer 2, for which the compiled code was made"),
        (
            "self.mode == 'a b'",
            "self.mode is no longer 'a b', for which the compiled code was made",
        ),
        (
            "G['scale'] == 2.0",
            "the global scale is no longer 2.0, for which the compiled code was made",
        ),
        ("epoch <= 1", "epoch is no longer in epoch <= 1, for which the compiled code was made"),
        ("2 <= n <= 8", "n is no longer in 2 <= n <= 8, for which the compiled code was made"),
        ("len(parts) == 2", "the length of parts was 2 and now is something else"),
        ("flag is None", "flag is no longer None, for which the compiled code was made"),
        ("not flag", "flag was empty or false and now is something else"),
        (
            "___check_type_id(k, 94383), type=<class 'int'>",
            "k was of type int and now is something else",
        ),
        ("a is b", "a and b were one tensor and now are two"),
        ('Duplicate tensors found: ["a", "b"]', "the same tensor was given twice: a, b"),
        ("GLOBAL_STATE changed: grad_mode", "grad mode changed (torch.no_grad)"),
        ("GLOBAL_STATE changed: num_threads ", "a global setting of torch's changed: num_threads"),
        (
            "GLOBAL_STATE changed: autocast(cpu)_enabled",
            "a global setting of torch's changed: autocast(cpu)_enabled",
        ),
        (
            "expected type of 'mask' to be a tensor type, ' but found <class 'NoneType'>",
            "mask was a tensor and now is something else",
        ),
        (
            "Cache line invalidated because f was deleted",
            "Cache line invalidated because f was deleted",
        ),
    ],
)
def test_torchs_reason_in_plain_words_without_the_new_value_as_in_sessions_of_old(
    reason: str, words: str
) -> None:
    assert change_of(reason).words == words


@pytest.mark.parametrize(
    ("class_name", "value", "words"),
    [
        ("torch.distributed.tensor.DTensor", "f32[8]", "another class now: torch.distributed"),
        ("__main__.Scaled", "bf16[2, 4]", "another class now: __main__.Scaled"),
        ("torch.Tensor", "f32[]", "another class now: torch.Tensor"),
        ("NoneType", "None", "s was a tensor and now is None"),
        ("list", "list of 3", "s was a tensor and now is list of 3"),
        ("float", "2.5", "s was a tensor and now is 2.5"),
    ],
)
def test_a_tensor_of_another_class_is_told_from_what_is_none(
    class_name: str, value: str, words: str
) -> None:
    reason = f"expected type of 's' to be a tensor type, ' but found <class '{class_name}'>"
    assert words in change_of(reason, "L['s']", "", value).words


def test_there_are_as_many_recompiles_as_compilations_after_the_first(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    session = reader(captured("recompiles"))
    frames = session.meta("counters")["frames"]
    assert totals(session).recompiles == frames["total"] - 1
    assert totals(session).graphs == session.meta("counters")["stats"]["unique_graphs"]


def test_a_recompile_says_what_was_different(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    found = recompiles(reader(captured("recompiles")))
    assert {one.function for one in found} == {"score"}
    assert all(one.compilation and one.of and one.reason and one.place for one in found)
    words = " ".join(one.description for one in found)
    assert "size 0 of x was" in words
    assert "the dtype of x was float32 and now is float64" in words


def test_the_cause_is_the_value_that_was_never_compiled_for(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    """Second source: the sample says in comments what it changes; by then another dtype is the
    latest compilation.
    """
    found = causes(reader(captured("recompiles")))
    assert [(one.compilation, one.change.name, one.change.kind) for one in found] == [
        ("0/1", "x", "size"),
        ("0/2", "power", "number"),
        ("0/3", "centred", "value"),
        ("0/4", "x", "dtype"),
        ("0/5", "scale", "number"),
    ]


def test_a_session_of_old_has_its_recompiles_with_the_line_of_the_guard(written: Written) -> None:
    """The row has neither source nor values, and a report on a tensor has no line: the guards have
    it.
    """

    def write(writer: SessionWriter) -> None:
        first, again = (
            writer.add(model.Compilation(0, f"0/{i}", 0, i, "f", "/p/m.py", 1, status="ok"))
            for i in range(2)
        )
        for source, line in (("L['y']", 5), ("L['batch']['x']", 7)):
            writer.add(model.Guard(0, first, 0, "TENSOR_MATCH", source, "", "", "/p/m.py", line))
        reason = "tensor 'batch['x']' size mismatch at index 0. expected 8, actual 12"
        writer.add(model.Recompile(0, again, "0/0", f"0/0: {reason}", reason, "", 0))

    (found,) = recompiles(written(write))
    assert (found.file, found.line, found.description) == (
        "/p/m.py",
        7,
        "size 0 of batch['x'] was 8 and now is 12",
    )
    assert (found.called_from, found.graphs) == (("", 0), "")
    assert limit_hits(written(write)) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("L['n'] == 3", "n was 2 and now is 3"),
        (
            "___check_type_id(L['n'], 1396)",
            "n is no longer 2, for which the compiled code was made",
        ),
    ],
)
def test_a_new_value_that_was_not_recorded_is_what_the_new_code_was_made_for(
    written: Written, code: str, expected: str
) -> None:
    """A log has only the guard that failed; the new version's own guard has its value, unless it is
    for all of them.
    """

    def write(writer: SessionWriter) -> None:
        first, again = (
            writer.add(model.Compilation(0, f"0/{i}", 0, i, "f", "/p/m.py", 1, status="ok"))
            for i in range(2)
        )
        for owner, text in ((first, "L['n'] == 2"), (again, code)):
            check = model.GuardCheck(0, owner, 0, 0, "EQUALS_MATCH", "L['n']", "argument", text)
            writer.add(check)
        writer.add(model.Recompile(0, again, "0/0", "0/0: n == 2", "n == 2", "", 0))

    (recompile,) = recompiles(written(write))
    assert recompile.description == expected


def operations(*calls: tuple[str, str, str]) -> list[model.Node]:
    """(name, target, arguments) of each node; targets of inputs are empty."""
    return [
        model.Node(
            0,
            0,
            0,
            name,
            "call_function" if target else "placeholder",
            target,
            arguments,
            ("4",),
            "f32",
        )
        for name, target, arguments in calls
    ]


BEFORE = operations(("x", "", ""), ("mul", "torch.mul", "x, 2"), ("add", "torch.add", "mul, x"))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (BEFORE, "the graphs are the same"),
        ([replace(node, shape=("8",)) for node in BEFORE], "the graphs are equal except for sizes"),
        ([replace(node, dtype="f64") for node in BEFORE], "the graphs are equal except for dtypes"),
        ([replace(node, dtype="f64", shape=("8",)) for node in BEFORE], "the graphs are equal except for dtypes and sizes"),
        (operations(("x", "", ""), ("m", "torch.mul", "x, 2"), ("a", "torch.add", "m, x")), "the graphs are the same"),
        (BEFORE[:2], "1 operation less: add"),
        ([*BEFORE, *operations(("s", "torch.sin", "add"), ("t", "torch.sin", "s"))], "2 operations more: 2× sin"),
        (
            operations(("x", "", ""), ("mul", "torch.mul", "x, 3"), ("add", "torch.add", "mul, x")),
            "the same operations with other arguments: mul(x, 2) → mul(x, 3)",
        ),
        (
            operations(("x", "", ""), ("mul_7", "torch.mul", "x, 2"), ("add_1", "torch.add", "mul_7, 5"))
            + operations(("add_2", "torch.add", "mul_7, 5")),
            "1 operation more: add",
        ),
        (
            operations(("x", "", ""), ("mul_7", "torch.mul", "x, 4"), ("add_9", "torch.add", "mul_7, x")),
            "the same operations with other arguments: mul(x, 2) → mul(x, 4)",
        ),
    ],
)  # fmt: skip
def test_how_two_graphs_differ_in_words(after: list[model.Node], words: str) -> None:
    assert difference(BEFORE, after) == words


@pytest.mark.parametrize(
    ("change", "said", "not_said"),
    [
        (GuardChange("size", "x", "input", "4", "6", "", 0), "mark_dynamic(x, 0)", "mark_unbacked"),
        (GuardChange("size", "x", "input", "4", "1", "", 0), "mark_unbacked(x, 0)", "mark_dynamic"),
        (
            GuardChange("size", "self.table", "attribute", "4", "6", "", 0),
            "dynamic=True",
            "mark_dynamic",
        ),
        (
            GuardChange("value", "up", "input", "True", "False", ""),
            "both compilations stay",
            "outside",
        ),
        (GuardChange("value", "way", "input", "'up'", "'down'", ""), "branch outside", "tensor"),
        (
            GuardChange("value", "mode", "global", "'a'", "'b'", ""),
            "Do not change mode",
            "argument",
        ),
        (GuardChange("type", "k", "input", "int", "2.5", ""), "int(k)", "tensor"),
        (GuardChange("type", "k", "input", "my.Own", "2.5", ""), "same type", "("),
        (
            GuardChange("dtype", "x", "input", "float32", "float64", ""),
            "x.to(torch.float32)",
            "int",
        ),
    ],
)
def test_a_remedy_fits_what_changed(change: GuardChange, said: str, not_said: str) -> None:
    told = remedy(change)
    assert said in told
    assert not_said not in told


def test_a_remedy_of_torchs_for_numbers_of_a_module_is_told_where_torch_tells_it() -> None:
    change = GuardChange("number", "self.power", "attribute", "2", "3", "")
    assert "allow_unspec_int_on_nn_module" in remedy(
        change, "0/0: self.power == 2 (HINT: allow_unspec_int_on_nn_module)"
    )
    assert "allow_unspec_int_on_nn_module" not in remedy(change)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"dynamic": True}, "with dynamic=True at test_recompiles.py:"),
        ({}, {"options": {"max_fusion_size": 4}}, 'with options={"max_fusion_size": 4} at'),
        ({}, {"backend": "eager"}, "was given the backend eager, and inductor before"),
        (
            {"backend": "eager"},
            {"backend": "eager", "dynamic": True},
            "with dynamic=True (None before)",
        ),
    ],
)
def test_what_torch_compile_was_given_otherwise_is_named(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], words: str
) -> None:
    def program(_: Compile) -> None:
        for arguments in (first, second):
            torch.compile(doubled, **arguments)(torch.ones(3))

    with record(tmp_path / "s.fxs", program) as session:
        (recompile,) = recompiles(session)
        assert "BACKEND_MATCH" in recompile.reason
        assert words in recompile.description
