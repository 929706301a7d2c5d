"""These tests replay wrappers: what each statement does to storages is compared with sizes that
torch itself allocates.
"""

from __future__ import annotations

import textwrap

import pytest
import torch

from fx_explorer.instruments.memory.replay import (
    UNKNOWN,
    Argument,
    Lifetime,
    Replayed,
    Result,
    replay,
)
from fx_explorer.instruments.memory.sizes import (
    UnknownSize,
    UnreadableCode,
    argument_names,
    item_bytes,
    read_wrapper,
    rounded,
    size_of_text,
    strided_bytes,
    value_bytes,
)


def replayed(
    body: str,
    *arguments: Argument,
    sizes: dict[str, int] | None = None,
    results: dict[int, list[Result | None]] | None = None,
) -> Replayed:
    """Replay ``body`` as the function ``call``, whose first line is line 2; every expression
    statement is a kernel.
    """
    wrapper = read_wrapper(
        "def call(args):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    )
    lines = [
        number
        for number, line in enumerate(("\n" + textwrap.dedent(body).strip("\n")).split("\n"), 1)
        if "kernel" in line
    ]
    return replay(
        wrapper, arguments, sizes or {}, lambda line: (results or {}).get(line), frozenset(lines)
    )


def named(found: Replayed, name: str) -> Lifetime:
    return next(one for one in found.storages if one.name == name)


X = Argument("x", 64, "cpu")


@pytest.mark.parametrize(
    ("shape", "stride"),
    [
        ((3, 4), (4, 1)),
        ((2, 3, 4), (12, 1, 3)),
        ((5,), (7,)),
        ((), ()),
        ((0, 9), (9, 1)),
        ((4, 4), (0, 1)),
    ],
)
def test_a_storage_is_as_large_as_torch_makes_it(
    shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    for dtype in (
        torch.float32,
        torch.bfloat16,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
    ):
        made = torch.empty_strided(shape, stride, dtype=dtype)
        assert (
            strided_bytes(shape, stride, item_bytes(str(dtype))) == made.untyped_storage().nbytes()
        )
        found = replayed(f"buf0 = empty_strided_cpu({shape}, {stride}, {dtype})\nreturn (buf0, )")
        assert named(found, "buf0").size_bytes == made.untyped_storage().nbytes()


def test_a_buffer_that_is_reused_is_one_storage() -> None:
    found = replayed(
        """
        x, = args
        args.clear()
        buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)
        kernel(x, buf0)
        buf1 = reinterpret_tensor(buf0, (2, 2), (2, 1), 0); del buf0  # reuse
        kernel(buf1)
        return (buf1, )
        """,
        X,
    )
    assert [one.name for one in found.storages] == ["x", "buf0"]
    assert found.returned == ((1,),)
    assert named(found, "buf0").dies is None
    assert named(found, "buf0").device == "cuda"


def test_a_storage_lives_until_its_last_name_is_deleted() -> None:
    found = replayed(
        """
        buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
        buf1 = reinterpret_tensor(buf0, (2, ), (1, ), 0)
        kernel(buf0)
        del buf0
        kernel(buf1)
        del buf1
        kernel()
        """
    )
    first, second, third = found.kernels
    held = named(found, "buf0")
    assert held.born < first.at < second.at
    assert held.dies is not None
    assert second.at < held.dies < third.at


def test_a_storage_is_made_by_the_kernel_that_is_called_next() -> None:
    found = replayed(
        """
        kernel()
        buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
        kernel(buf0)
        kernel(buf0)
        """
    )
    assert named(found, "buf0").made_on == found.kernels[1].line == 4


def test_results_of_a_library_call_live_apart() -> None:
    found = replayed(
        """
        buf0 = torch.ops.aten.kernel.default(x)
        buf1 = buf0[0]
        buf2 = buf0[1]
        del buf0
        del buf1
        other()
        return (buf2, )
        """,
        results={2: [Result(100, "cpu"), Result(200, "cpu"), None]},
    )
    assert [(one.size_bytes, one.dies is None) for one in found.storages] == [
        (100, False),
        (200, True),
    ]


def test_a_result_without_a_node_takes_its_size_from_the_check_behind_it() -> None:
    body = """
        x, = args
        buf0 = empty_strided_cpu((4, ), (1, ), torch.float64)
        buf1 = torch.ops.my.op.default(buf0)
        assert_size_stride(buf1, (3, 2), (2, 1), 'my.op')
        return (buf1, )
        """
    found = replayed(body, X)
    assert named(found, "buf1").size_bytes == 3 * 2 * 8
    assert found.assumed == ("buf1",)
    assert named(replayed(body.replace("(3, 2)", "(u0, 2)"), X), "buf1").size_bytes == UNKNOWN


def test_an_operator_that_writes_in_place_makes_no_storage() -> None:
    found = replayed(
        "x, = args\nbuf0 = torch.ops.aten.index_put_.default(x, [], x)\nreturn (buf0, )", X
    )
    assert [one.name for one in found.storages] == ["x"]


def test_sizes_follow_the_symbols_and_what_the_wrapper_computes_of_them() -> None:
    found = replayed(
        """
        s0, = args
        s1 = s0
        ps0 = 2*s1 + s77 // 3
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((ps0, max(1, s77)), (max(1, s77), 1), torch.float16)
            return (buf0, )
        """,
        Argument("s0", 0, is_tensor=False),
        sizes={"s0": 5, "s77": 7},
    )
    assert named(found, "buf0").size_bytes == 12 * 7 * 2
    assert found.returned == ((0,),)


def test_a_size_that_nobody_knows_is_unknown_and_not_zero() -> None:
    found = replayed(
        "u0 = x.item()\nbuf0 = empty_strided_cpu((u0, ), (1, ), torch.float32)\nreturn (buf0, )"
    )
    assert named(found, "buf0").size_bytes == UNKNOWN


PARTITIONED = """
def partition_0(args):
    buf0, = args
    args.clear()
    kernel(buf0)
    buf1 = empty_strided_cpu((8, ), (1, ), torch.float32)
    kernel(buf0, buf1)
    del buf0
    kernel(buf1)
    return (buf1, )

class Runner:
    def call(self, args):
        x, = args
        args.clear()
        buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
        partition0_args = [buf0]
        del buf0
        (buf1,) = self.partitions[0](partition0_args)
        del partition0_args
        return (buf1, )
"""


def test_a_partition_drops_what_it_is_given() -> None:
    wrapper = read_wrapper(PARTITIONED)
    assert argument_names(wrapper.entry) == ["x"]
    found = replay(wrapper, [X], {}, lambda _: None, frozenset({5, 7, 9}))
    given, made = named(found, "buf0"), named(found, "buf1")
    assert given.dies is not None
    assert found.kernels[1].at < given.dies < found.kernels[2].at
    assert made.dies is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("while buf0:\n    pass", "line 2"),
        ("if x:\n    del x", "if x:"),
        ("a, b = args", "a, b = args"),
        ("buf0 += 1", "buf0 += 1"),
    ],
)
def test_a_statement_that_is_not_known_is_told_and_not_guessed(body: str, told: str) -> None:
    with pytest.raises(UnreadableCode, match="output code is of an unknown form") as raised:
        replayed(body, X)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    "text", ["", "def other(args): pass", "def call(args:", "x = " + "(" * 5000, "\0"]
)
def test_code_without_a_wrapper_is_refused(text: str) -> None:
    with pytest.raises(UnreadableCode):
        read_wrapper(text)


def test_a_wrapper_in_cpp_is_refused() -> None:
    with pytest.raises(UnreadableCode, match="written in cpp"):
        read_wrapper("void call() {}", "cpp")


def test_functions_that_call_one_another_for_ever_are_refused() -> None:
    wrapper = read_wrapper(
        "def partition_0(args):\n    partition_0(args)\n    a = partition_0(args)\ndef call(args):\n    b = partition_0(args)"
    )
    with pytest.raises(UnreadableCode, match="too deep"):
        replay(wrapper, [], {}, lambda _: None, frozenset())


def test_a_power_that_would_take_all_memory_is_not_computed() -> None:
    assert size_of_text("2**10", {}) == 1024
    for text in ("2**10**10", "1/0", "1//0", "x", "__import__('os')", "(" * 2000):
        with pytest.raises(UnknownSize):
            size_of_text(text, {})


def test_a_value_of_several_tensors() -> None:
    assert value_bytes("(f32[2, 8, s0], None, i64[], b8[3])", {"s0": 2}) == [128, None, 8, 3]


def test_a_gpu_gives_blocks_of_512_bytes() -> None:
    assert [rounded(size, "cuda") for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]
    assert rounded(1, "cpu") == 1
