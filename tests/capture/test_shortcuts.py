"""What is left out while torch is recorded gives what torch itself gives."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sympy
import torch
import torch.utils._sympy.printers as value_printers
from torch._dynamo.source import LocalSource
from torch._inductor import bounds, graph, ir, pattern_matcher
from torch._inductor.codegen.common import PythonPrinter
from torch._inductor.codegen.cpp_utils import CppPrinter
from torch._inductor.codegen.triton import TritonPrinter
from torch._inductor.pattern_matcher import (
    Arg,
    CallFunction,
    CallFunctionVarArgs,
    KeywordArg,
    ListOf,
    MultiOutputPattern,
)
from torch._inductor.sizevars import SizeVarAllocator
from torch._inductor.virtualized import V
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    ShapeGuardPythonPrinter,
    StatelessSymbolicContext,
)
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.value_ranges import ValueRanges

from fx_explorer.capture.torch_compat.shortcuts import shortcuts


def key_of(tensor: torch.Tensor, mode: FakeTensorMode) -> list[object]:
    """Return what the tensor adds to the key of an operation, as torch's cache of fake tensors makes it."""
    parts: list[object] = []
    metadata = fake_tensor.extract_tensor_metadata(tensor)
    metadata._flatten_into(parts, mode, fake_tensor._CacheKeyState(mode.shape_env))
    return parts


def test_fake_tensors_have_the_keys_that_torch_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        matrix = torch.empty(2, 3)
        tensors = [matrix, matrix.t(), matrix.bool(), matrix[1], torch.empty(())]
    dynamic = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
    symbolic = mode.from_tensor(torch.empty(5, 3), symbolic_context=dynamic)
    with mode:
        row = symbolic[0]
    by_torch = [key_of(tensor, mode) for tensor in tensors]
    made: list[object] = []
    original = fake_tensor.TensorMetadata._flatten_into

    def counted(*args: Any) -> None:
        made.append(args)
        original(*args)

    monkeypatch.setattr(fake_tensor.TensorMetadata, "_flatten_into", counted)
    with shortcuts():
        for _ in range(2):
            assert [key_of(tensor, mode) for tensor in tensors] == by_torch
        assert len(made) == len(tensors)
        for one in (symbolic, row) * 2:
            key_of(one, mode)
        assert len(made) == len(tensors) + 4, "symbols are always left to torch"
    assert fake_tensor.TensorMetadata._flatten_into is counted


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_told_from_strided_ones() -> None:
    dense = torch.eye(4)
    tensors = [dense, dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_bsr((2, 2)), None]
    assert [fake_tensor.is_sparse_any(tensor) for tensor in tensors] == [
        False,
        True,
        True,
        True,
        False,
    ]
    with shortcuts():
        assert [fake_tensor.is_sparse_any(tensor) for tensor in tensors] == [
            False,
            True,
            True,
            True,
            False,
        ]


def test_ordered_sets_have_the_order_that_torch_gives_them() -> None:
    sets = [OrderedSet(text) for text in ("", "abc", "cb", "dcba", "xay", "bcd")]
    others = [*sets, set("a"), frozenset("b")]

    def united_and_common() -> list[list[str]]:
        return [
            list(result)
            for one in sets
            for other in others
            for result in (one | other, one & other)
        ]

    by_torch = united_and_common()
    with shortcuts():
        assert united_and_common() == by_torch
        united = sets[1] | sets[1]
    united.add("new")
    assert "new" not in sets[1]


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    aten = torch.ops.aten
    scores = aten.exp.default(aten.div.Tensor(aten.bmm.default(x, y), 2.0))
    joined = aten.cat.default([aten.sin.default(x), aten.cos.default(x)])
    doubled = aten.add.Tensor(aten.sin.default(y), aten.sin.default(y), alpha=2)
    product = aten.mul.Tensor(input=aten.sin.default(x), other=y)
    return aten.bmm.default(scores, aten.add.Tensor(joined, aten.mul.Tensor(doubled, product)))


def patterns() -> list[Any]:
    """Patterns of all kinds, each with whether it is in ``program``."""
    aten = torch.ops.aten
    sine = CallFunction(aten.sin.default, Arg())

    def attention(scores: Any) -> Any:
        return CallFunction(aten.bmm.default, CallFunction(aten.exp.default, scores), Arg())

    def halved(product: Any) -> Any:
        return CallFunction(aten.div.Tensor, CallFunction(product, Arg(), Arg()), 2.0)

    return [
        (attention(halved(aten.bmm.default)), True),
        (attention(halved(aten.mm.default)), False),
        (
            attention(
                CallFunction(
                    aten.div.Tensor, CallFunctionVarArgs(aten.bmm.default), KeywordArg("by")
                )
            ),
            True,
        ),
        (
            attention(
                CallFunction(
                    aten.div.Tensor, CallFunctionVarArgs(aten.mm.default), KeywordArg("by")
                )
            ),
            False,
        ),
        (attention(CallFunctionVarArgs([aten.div.Tensor, aten.mul.Tensor])), True),
        (CallFunction(aten.cat.default, [sine, CallFunction(aten.cos.default, Arg())]), True),
        (
            CallFunction(
                aten.cat.default, ListOf(CallFunction([aten.sin.default, aten.cos.default], Arg()))
            ),
            True,
        ),
        (CallFunction(aten.add.Tensor, sine, sine, alpha=2), False),
        (
            CallFunction(
                aten.add.Tensor, sine, CallFunction(aten.sin.default, Arg()), alpha=KeywordArg("by")
            ),
            True,
        ),
        (CallFunction(aten.add.Tensor, sine, Arg()), True),
        (
            CallFunction(
                aten.mul.Tensor, CallFunction(aten.add.Tensor, Arg(), Arg(), alpha=2), Arg()
            ),
            True,
        ),
        (MultiOutputPattern([halved(aten.bmm.default)]), True),
        (MultiOutputPattern([halved(aten.mm.default)]), False),
    ]


def test_patterns_find_what_they_find_without_a_look_before() -> None:
    calls = [
        node for node in torch.fx.symbolic_trace(program).graph.nodes if node.op == "call_function"
    ]

    def found() -> list[list[list[str]]]:
        matches = [[pattern.match(node) for node in calls] for pattern, _ in patterns()]
        return [
            [[node.name for node in match.nodes] for match in of_one if match] for of_one in matches
        ]

    by_torch = found()
    assert [bool(nodes) for nodes in by_torch] == [is_there for _, is_there in patterns()]
    with shortcuts():
        assert found() == by_torch


def test_patterns_whose_rules_are_not_known_are_matched_by_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def _match(pattern: Any, node: Any, context: Any) -> Any:
        return pattern.commuted(node, context)

    own = pattern_matcher.PatternExpr.match
    with shortcuts():
        assert pattern_matcher.PatternExpr.match is not own
    monkeypatch.setattr(pattern_matcher._TargetArgsExpr, "_match", _match)
    with shortcuts():
        assert pattern_matcher.PatternExpr.match is own


x, y, z = (sympy.Symbol(name, integer=True, nonnegative=True) for name in "xyz")
SUMS = [
    x,
    x + 64 * y,
    -x - 1,
    x * y * 3 + z - 2,
    sympy.Integer(7),
    2**31 * z,
    FloorDiv(x, 4) + y,
    ModularIndexing(y, 2, 8),
]


def test_texts_of_sums_are_those_that_are_written_anew() -> None:
    printers = [PythonPrinter(), TritonPrinter(), CppPrinter(), value_printers.PythonPrinter()]

    def texts() -> list[str]:
        return [str(expr) for expr in SUMS] + [
            printer.doprint(expr) for printer in printers for expr in SUMS
        ]

    by_torch = texts()
    with shortcuts():
        assert texts() == by_torch
        assert texts() == by_torch, "kept"


def test_a_printer_of_guards_names_symbols_by_where_they_come_from() -> None:
    def guard(name: str) -> str:
        source = LocalSource(name)
        return ShapeGuardPythonPrinter(
            {x: [source]}, lambda source: source.local_name, {x: [source]}
        ).doprint(x + 2)

    with shortcuts():
        assert (guard("first"), guard("second")) == ("2 + first", "2 + second")


@pytest.fixture
def sizes() -> Iterator[SizeVarAllocator]:
    """What Inductor asks about sizes while it lowers a graph."""
    allocator = SizeVarAllocator(ShapeEnv())
    with V.set_graph_handler(SimpleNamespace(sizevars=allocator)):
        yield allocator


def test_bounds_are_kept_where_no_size_is_symbolic(
    sizes: SizeVarAllocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [
        {x: ValueRanges(0, 7), y: ValueRanges(low, 9), z: ValueRanges(1, 1)} for low in (0, 3)
    ]
    ranges.append({x: ValueRanges(0, 7)})
    by_torch = [bounds.bound_sympy(expr, given) for expr in SUMS for given in ranges]
    asked: list[object] = []
    original = bounds.bound_sympy

    def counted(expr: Any, given: Any) -> Any:
        asked.append(expr)
        return original(expr, given)

    monkeypatch.setattr(bounds, "bound_sympy", counted)
    with shortcuts():
        for _ in range(2):
            assert [
                bounds.bound_sympy(expr, given) for expr in SUMS for given in ranges
            ] == by_torch
        assert len(asked) < len(by_torch)
        count = len(asked)
        sizes.shape_env.var_to_range[sympy.Symbol("s0")] = ValueRanges(2, 8)
        for given in (ranges[0], ranges[0]):
            bounds.bound_sympy(x + y, given)
        assert len(asked) == count + 2


def test_room_and_contiguity_are_those_that_sympy_finds(sizes: SizeVarAllocator) -> None:
    one, two, three, six = map(sympy.Integer, (1, 2, 3, 6))
    none = sympy.Integer(0)
    layouts: list[Any] = [
        ([two, three], [three, one]),
        ([two, three], [one, two]),
        ([two, one, three], [three, six, one]),
        ([two, none, three], [none, three, one]),
        ([two, none, three], [three, three, one]),
        ([none, none], [one, one]),
        ([], []),
        ([2, 3], [3, 1]),
        ([x, three], [three, one]),
        ([three, x], [x, one]),
    ]

    def answers() -> list[object]:
        found = [
            graph.compute_required_storage_length(shape, stride, six) for shape, stride in layouts
        ]
        return [
            *found,
            *map(type, found),
            *(ir.is_contiguous_strides_for_shape(stride, shape) for shape, stride in layouts),
        ]

    by_torch = answers()
    assert by_torch[-10:] == [True, False, True, True, True, True, True, True, True, True]
    with shortcuts():
        assert answers() == by_torch
