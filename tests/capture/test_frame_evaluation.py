import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from fx_explorer.capture.torch_compat.frame_evaluation import _interpreter, compile_without_being_asked
from tests.capture.lowering import fresh_compiler

LONG = 60


@pytest.fixture(autouse=True)
def unasked() -> Iterator[None]:
    with fresh_compiler(), contextlib.ExitStack() as stack:
        compile_without_being_asked(stack)
        yield


class Counting:
    """A backend that runs graphs as they are, counts what runs, and does something while it compiles."""

    def __init__(self, while_compiling: Callable[[], object] = lambda: None) -> None:
        self.compiled = self.ran = 0
        self._while_compiling = while_compiling

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.compiled += 1
        self._while_compiling()

        def run(*args: Any) -> Any:
            self.ran += 1
            return module.forward(*args)

        return run


def is_pythons_own() -> bool:
    python = _interpreter()
    assert python is not None
    return python.evaluation() == python.pythons_own


def broken(x: torch.Tensor, between: Callable[[], object] = lambda: None) -> torch.Tensor:
    """Breaks twice with no graph between: each call of a graph turns Dynamo off and on, and so asks for it anew."""
    x = x + 1
    torch._dynamo.graph_break()
    sys.call_tracing(between, ())  # Dynamo knows nothing of it: it breaks
    return x * 2


def test_python_evaluates_frames_while_dynamo_compiles_and_dynamo_is_asked_about_the_rest() -> None:
    seen: list[bool] = []
    backend = Counting(lambda: seen.append(is_pythons_own()))
    torch.compile(broken, backend=backend)(torch.ones(2))
    assert seen == [True, True]
    assert (backend.compiled, backend.ran) == (2, 2), "what follows the break is compiled, too"
    assert is_pythons_own(), "no compiled function runs any more"


def test_a_function_compiled_while_another_is_being_compiled_is_compiled_to_its_end() -> None:
    def other(x: torch.Tensor) -> torch.Tensor:
        x = x - 1
        torch._dynamo.graph_break()
        return x / 2

    inner = Counting()
    outer = Counting(lambda: torch.compile(other, backend=inner)(torch.ones(2)))
    torch.compile(broken, backend=outer)(torch.ones(3))
    assert (outer.compiled, outer.ran) == (2, 2)
    assert (inner.compiled, inner.ran) == (2, 4), "two graphs, run while each graph of the outer function is compiled"


def test_dynamo_is_asked_again_where_a_backend_raises() -> None:
    def fail() -> None:
        raise RuntimeError("a backend of the test's")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(broken, backend=Counting(fail))(torch.ones(2))
    backend = Counting()
    torch.compile(broken, backend=backend)(torch.ones(2))
    assert (backend.compiled, backend.ran) == (2, 2)


def test_while_a_thread_is_in_a_compiled_function_dynamo_goes_on_being_asked() -> None:
    arrived, may_go_on, seen = threading.Event(), threading.Event(), list[bool]()

    def wait() -> None:
        arrived.set()
        assert may_go_on.wait(LONG)

    thread = threading.Thread(target=torch.compile(broken, backend=Counting()), args=(torch.ones(2), wait))
    thread.start()
    assert arrived.wait(LONG)
    torch.compile(lambda x: x - 3, backend=Counting(lambda: seen.append(is_pythons_own())))(torch.ones(2))
    may_go_on.set()
    thread.join()
    assert seen == [False]
