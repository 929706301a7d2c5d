"""What torch is asked, and the blocks that it enters, tens of thousands of times: the same while it is recorded."""

import contextlib
import importlib
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch._prims_common as common
from torch._inductor import graph as inductor_graph
from torch._inductor import loop_body, lowering, output_code, pattern_matcher
from torch._inductor.virtualized import V
from torch._library import utils as library
from torch._logging._internal import trace_log
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import traceback
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.torch_compat.compile_caches import caches_off
from fx_explorer.capture.torch_compat.shortcuts import shortcuts
from fx_explorer.capture.torch_compat.versions import options_there

# What is asked of each node.


def symbolic(rows: int) -> torch.Tensor:
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    return FakeTensorMode(shape_env=ShapeEnv()).from_tensor(
        torch.empty(rows, 3), symbolic_context=dynamic
    )


def test_strides_are_dense_where_torch_finds_them_so(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "_is_non_overlapping_and_dense_or_false"
    tensors = [
        torch.empty(2, 3, 4),
        torch.empty(2, 3, 4).transpose(0, 2),
        torch.empty(2, 3, 4)[:, ::2],
        torch.empty(2, 1, 4).expand(2, 3, 4),
        torch.empty(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.empty(4)[::2],
        torch.empty(0, 3),
        torch.empty(()),
    ]
    by_torch = [common.is_non_overlapping_and_dense_or_false(tensor) for tensor in tensors]
    assert by_torch == [True, True, False, False, True, False, True, True]
    asked: list[object] = []
    original = getattr(common, name)

    def counted(*sizes: Any) -> Any:
        asked.append(sizes)
        return original(*sizes)

    monkeypatch.setattr(common, name, counted)
    with shortcuts():
        for _ in range(2):
            assert [
                common.is_non_overlapping_and_dense_or_false(tensor) for tensor in tensors
            ] == by_torch
        assert len(asked) == len(tensors)
        for _ in range(2):
            assert common.is_non_overlapping_and_dense_or_false(symbolic(5))
        assert len(asked) == len(tensors) + 2, "symbols are always left to torch"
    assert getattr(common, name) is counted


def test_a_compiled_function_may_ask_and_interpret() -> None:
    module = torch.fx.symbolic_trace(lambda x: x.sin())

    def asking(x: torch.Tensor) -> torch.Tensor:
        return x.sin() if common.is_non_overlapping_and_dense_or_false(x) else x.cos()

    def interpreting(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.fx.Interpreter(module).run(x)
        return result

    def counts(function: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, dict[str, int]]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(function, backend="eager")
        for _ in range(3):
            compiled(torch.ones(3))
        return {
            group: dict(found) for group, found in torch._dynamo.utils.counters.items() if found
        }

    for function in (asking, interpreting):
        counts(function)  # the code of functions that Dynamo gives up on is remembered
    by_torch = [counts(asking), counts(interpreting)]
    with shortcuts():
        assert [counts(asking), counts(interpreting)] == by_torch


def nodes_of_all_types() -> list[torch.fx.Node]:
    """Nodes with values of all kinds, each beside one that takes it."""
    aten = torch.ops.aten
    with FakeTensorMode() as mode:

        def on_gpu(dtype: torch.dtype) -> torch.Tensor:
            return FakeTensor(
                mode, torch.empty(2, device="meta", dtype=dtype), torch.device("cuda:0")
            )

        values: list[Any] = [
            torch.empty(2),
            torch.empty(2, dtype=torch.complex64),
            torch.empty(2, dtype=torch.int64),
            torch.empty(2, device="meta"),
            on_gpu(torch.float32),
            torch.eye(2).to_sparse(),
            [torch.empty(2), torch.empty(2, dtype=torch.complex64)],
            (on_gpu(torch.float16), 3),
            3,
            None,
        ]
        for name in ("float8_e8m0fnu", "float8_e4m3fn", "float8_e5m2"):
            if hasattr(torch, name):
                values += [on_gpu(getattr(torch, name))]
    graph, nodes = torch.fx.Graph(), []
    for number, value in enumerate(values):
        given = graph.placeholder(f"given{number}")
        given.meta["val"] = value
        for target in (
            aten.sin.default,
            aten.view_as_complex.default,
            aten.lift_fresh_copy.default,
            aten.view.dtype,
        ):
            taken = graph.call_function(target, (given, torch.float32), {"out": [given]})
            taken.meta["val"] = values[0]
            made = graph.call_function(
                target, (nodes[0] if nodes else given, [graph.call_function(aten.cos.default)])
            )
            made.meta["val"] = value
            nodes += [given, taken, made]
    return nodes


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("has_no_cpp", [False, True])
def test_types_fall_back_where_torch_lets_them(has_no_cpp: bool) -> None:
    nodes = nodes_of_all_types()
    modules = (lowering, inductor_graph, pattern_matcher)

    def answers() -> list[bool]:
        return [
            module.fallback_node_due_to_unsupported_type(node, allow_cpu_inputs=asked)  # type: ignore[attr-defined]
            for module in modules
            for node in nodes
            for asked in (True, False)
        ]

    with torch._inductor.config.patch(disable_cpp_codegen=has_no_cpp):
        by_torch = answers()
        assert {*by_torch} == {True, False}
        with shortcuts():
            assert answers() == by_torch
            assert answers() == by_torch, "kept"


def test_a_line_is_named_as_torch_names_it() -> None:
    def here() -> list[str]:
        return [library.get_source(stacklevel) for stacklevel in (1, 2)]

    def from_one_line() -> list[str]:
        return here()

    by_torch = from_one_line()
    assert all(place.startswith(f"{__file__}:") for place in by_torch)
    with shortcuts():
        assert from_one_line() == by_torch


@pytest.mark.parametrize("is_cached", [False, True])
def test_graphs_are_printed_for_entries_of_a_cache(
    is_cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    original = output_code.CompiledFxGraph.__init__

    def noted(entry: Any, *args: Any, **kwargs: Any) -> None:
        original(entry, *args, **kwargs)
        kept.append(entry)

    monkeypatch.setattr(output_code.CompiledFxGraph, "__init__", noted)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(vars(trace_log), "handlers", [])  # torch's own leaves with the first record
    torch._dynamo.reset()
    with (
        inspecting(),
        caches_off(),
        shortcuts(),
        torch._inductor.config.patch(fx_graph_cache=is_cached),
    ):
        torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    (entry,) = kept
    assert ("sin" in entry.inductor_post_grad_graph_str) == is_cached
    assert "class Repro" in entry.runnable_graph_str


# Options.


OPTIONS = """
from torch.utils._config_module import Config, install_config_module

plain = 3
nothing = None
texts = ["a"]
numbers = {"a": 1}
by_environment = Config(default=False, env_name_default="OPTION_BY_DEFAULT")
forced = Config(default=True, env_name_force="OPTION_FORCED")
knob = Config(default=True, justknob="pytorch/none:at_all")
other_name = Config(alias="torch._inductor.config.max_autotune")
if hasattr(Config(default=0), "deprecated"):
    old = Config(default=1, deprecated=True, deprecation_message="gone")


class nested:
    inner = 1


install_config_module(__import__("sys").modules[__name__])
"""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Options of every kind that torch has."""
    monkeypatch.setenv("OPTION_BY_DEFAULT", "1")
    monkeypatch.setenv("OPTION_FORCED", "0")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "options_of_a_test.py").write_text(OPTIONS)
    yield importlib.import_module("options_of_a_test")
    del sys.modules["options_of_a_test"]


def read(module: Any) -> dict[str, object]:
    return {name: getattr(module, name) for name in module._config}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_options_have_the_values_that_torch_gives_them(options: Any) -> None:
    by_torch = read(options)
    assert (by_torch["by_environment"], by_torch["forced"], by_torch["other_name"]) == (
        True,
        False,
        False,
    )
    with shortcuts():
        assert read(options) == by_torch
        assert options.texts is options.texts
        options.texts.append("b")
        assert options.texts == ["a", "b"]


@pytest.mark.parametrize(
    "module", [torch._inductor.config, torch._dynamo.config, torch._functorch.config]
)
def test_torchs_own_options_are_the_same(module: Any) -> None:
    names = options_there(
        module, *module._config
    )  # without those of which torch warns the user, once

    def read_those() -> dict[str, object]:
        return {name: getattr(module, name) for name in names}

    by_torch = read_those()
    with shortcuts():
        own = read_those()
    changed = {name for name in by_torch if by_torch[name] != own[name]}
    assert changed <= {"run_gc_after_compile"}, "collection is left out elsewhere"


def test_options_that_change_are_told(options: Any) -> None:
    with shortcuts():
        options.plain = 4
        assert options.plain == 4
        with options.patch(plain=5, nothing="some"):
            assert (options.plain, options.nothing) == (5, "some")
        assert (options.plain, options.nothing) == (4, None)
        with mock.patch.object(options, "plain", 6):
            assert options.plain == 6
        assert options.plain == 4
        options._config["plain"].env_value_force = 7
        assert options.plain == 7
        with torch._inductor.config.patch(max_autotune=True):
            assert options.other_name is True
        del options.plain
        for name in ("plain", "unknown"):
            with pytest.raises(AttributeError, match=rf"options_of_a_test\.{name} does not exist"):
                getattr(options, name)
            assert not hasattr(options, name)


def test_another_thread_reads_what_torch_gives_it(options: Any) -> None:
    def read_beside() -> object:
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(options.plain))
        thread.start()
        thread.join()
        return found[0]

    options.plain = 4
    by_torch = read_beside()
    with shortcuts():
        assert read_beside() == by_torch


def test_a_warning_names_the_line_that_asks(options: Any) -> None:
    if "old" not in options._config:
        pytest.skip("options are never deprecated in this release")
    with shortcuts(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert options.old == 1
    assert [(warning.category, warning.filename) for warning in caught] == [
        (FutureWarning, __file__)
    ]


# Blocks.


def test_handlers_are_given_back_their_place() -> None:
    with contextlib.ExitStack() as until_later:
        before = type(V.get_current_node())
        with shortcuts():
            with V.set_current_node("outer"), V.set_graph_handler(SimpleNamespace(name="graph")):
                assert V.graph.name == "graph"
                with contextlib.suppress(ZeroDivisionError), V.set_current_node("inner") as entered:
                    assert (entered, V.get_current_node()) == (None, "inner")
                    raise ZeroDivisionError
                assert V.get_current_node() == "outer"
            assert type(V.get_current_node()) is before

            @V.set_current_node("decorated")
            def decorated() -> Any:
                return V.get_current_node()

            assert decorated() == "decorated"
            assert type(V.get_current_node()) is before
            until_later.enter_context(V.set_current_node("later"))
        assert V.get_current_node() == "later"
    assert type(V.get_current_node()) is before


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize("is_logged", [False, True])
def test_no_guards_are_made_in_a_block_without(
    is_noted: bool, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def seen() -> list[object]:
        shapes = ShapeEnv(should_record_events=is_noted)
        found: list[object] = [shapes._suppress_guards_tls()]
        with shapes.suppress_guards():
            with contextlib.suppress(ZeroDivisionError), shapes.suppress_guards():
                found.append(shapes._suppress_guards_tls())
                raise ZeroDivisionError
            found.append(shapes._suppress_guards_tls())

        @shapes.suppress_guards()
        def decorated() -> bool:
            return bool(shapes._suppress_guards_tls())

        return [
            *found,
            shapes._suppress_guards_tls(),
            decorated(),
            decorated(),
            [event.name for event in shapes.events],
        ]

    log = "torch.fx.experimental.recording"
    with caplog.at_level(logging.DEBUG if is_logged else logging.INFO, log):
        by_torch, lines = seen(), len(caplog.messages)
        with shortcuts():
            assert seen() == by_torch
    assert len(caplog.messages) == 2 * lines
    assert by_torch[:6] == [False, True, True, False, True, True]


def test_shapes_of_the_programs_are_told_that_a_block_is_entered() -> None:
    class Noting(ShapeEnv):
        def _suppress_guards_enter(self) -> None:
            told.append("enter")
            super()._suppress_guards_enter()

    told: list[str] = []
    with shortcuts(), Noting().suppress_guards():
        assert told == ["enter"]


@pytest.mark.parametrize("around", [contextlib.nullcontext, traceback.preserve_node_meta])
def test_nodes_hand_on_what_is_said_of_them(around: Callable[[], Any]) -> None:
    module = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    for node in module.graph.nodes:
        node.meta["custom"] = {"of": node.name}

    class Looking(loop_body.InterpreterShim):
        def __init__(self) -> None:
            torch.fx.Interpreter.__init__(self, module)
            self.seen: list[object] = []

        def run_node(self, n: torch.fx.Node) -> Any:
            return torch.fx.Interpreter.run_node(self, n)

        def call_function(self, *call: Any) -> Any:
            self.seen.append(dict(traceback.get_current_meta()).get("custom"))
            return super().call_function(*call)

    def seen() -> list[object]:
        looking = Looking()
        with around():
            looking.run(torch.ones(2))
        return looking.seen

    by_torch = seen()
    with shortcuts():
        assert seen() == by_torch
    assert by_torch == [{"of": "sin"} if around is traceback.preserve_node_meta else None]
