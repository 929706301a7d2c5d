"""These tests check a backend's name in a session: the name that the user gave it, however torch
calls it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd

from fx_explorer.model import Compilation, SupportReport
from tests.capture.recorded import failures, record


def mine(module: torch.fx.GraphModule, inputs: object, level: int = 0) -> Callable[..., Any]:
    return module.forward


def boxed(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
    def run(inputs: list[Any]) -> Any:
        return module.forward(*inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class Mine:
    def __call__(self, module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        return module.forward

    def lower(self, module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        return module.forward


in_a_variable = aot_autograd(fw_compiler=boxed)
partly = functools.partial(lambda module, inputs, level: module.forward, level=2)
registered = aot_autograd(fw_compiler=boxed)


def f(x: torch.Tensor) -> torch.Tensor:
    return x.relu() + 1


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (mine, "mine"),
        (in_a_variable, "in_a_variable"),
        (aot_autograd(fw_compiler=boxed), "boxed"),
        (aot_autograd(fw_compiler=lambda module, inputs: boxed(module, inputs)), "aot_autograd"),
        (functools.partial(mine, level=3), "mine"),
        (partly, "partly"),
        (Mine(), "Mine"),
        (Mine().lower, "Mine.lower"),
        (lambda module, inputs: module.forward, "<lambda>"),
        ("aot_eager", "aot_eager"),
        ("registered_by_a_test", "registered_by_a_test"),
        (registered, "registered_by_a_test"),
        ("inductor", "inductor"),
    ],
)
def test_a_backend_has_the_name_that_the_user_gave_it(
    backend: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.list_backends()  # torch registers its own at the first look, and does not do so again
    monkeypatch.setattr(registry, "_COMPILER_FNS", dict(registry._COMPILER_FNS))
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    torch._dynamo.register_backend(registered, name="registered_by_a_test")
    reader = record(
        tmp_path / "s.fxs", lambda compile: torch.compile(f, backend=backend)(torch.ones(3))
    )
    assert failures(reader) == []
    assert [row.backend for row in reader.rows(Compilation)] == [name]
    assert {row.backend for row in reader.rows(SupportReport)} <= {name}


def test_a_function_that_is_compiled_ahead_of_its_calls_has_the_name_too(tmp_path: Path) -> None:
    def program(compile: object) -> None:
        ahead = torch.compile(f, backend=in_a_variable, fullgraph=True)
        with (
            torch._dynamo.config.patch(enable_aot_compile=True),
            contextlib.suppress(AssertionError),
        ):
            ahead.aot_compile(
                ((torch.ones(3),), {})
            )  # torch saves only what Inductor makes, and raises

    reader = record(tmp_path / "s.fxs", program)
    assert [row.backend for row in reader.rows(Compilation)] == ["in_a_variable"]


def test_attempts_that_dynamo_began_anew_and_frames_without_a_graph_have_their_backend_in_a_thread(
    tmp_path: Path,
) -> None:
    begun: list[object] = []

    def anew(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        begun.append(module)
        if len(begun) == 1:
            raise torch._dynamo.exc.TensorifyScalarRestartAnalysis
        return module.forward

    def cut(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    def in_a_loop(
        x: torch.Tensor,
    ) -> torch.Tensor:  # Dynamo leaves it to Python: what it calls has a break
        for _ in range(2):
            x = cut(x)
        return x

    def program(compile: object) -> None:
        def run() -> None:
            torch.compile(f, backend=anew)(torch.ones(3))
            torch.compile(in_a_loop, backend=anew)(torch.ones(3))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    reader = record(tmp_path / "s.fxs", program)
    rows = list(reader.rows(Compilation))
    assert {"restarted", "skipped", "ok"} <= {row.status for row in rows}
    assert {row.backend for row in rows} == {"anew"}
