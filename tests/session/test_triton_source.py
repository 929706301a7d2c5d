"""These tests check which of a stranger's Triton sources are compiled: everything that Inductor
writes, and nothing else. No test runs a source that it reads.
"""

from __future__ import annotations

import ast
import gzip
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer.session.untrusted.triton_allowed import Helpers, UntrustedSourceError
from fx_explorer.session.untrusted.triton_source import check_source
from tests.session.hostile_sources import HEAD, HOSTILE, kernel

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="there is no triton here"
)


@pytest.fixture(scope="module")
def helpers() -> Helpers:
    from fx_explorer.capture.virtual_gpu.triton_kernel import helpers

    return helpers()


def recorded() -> Iterator[str]:
    """Triton sources that Inductor wrote for a real H200, and those of tests/data."""
    golden = json.loads(
        gzip.decompress((ROOT / "golden_gpu" / "h200_torch-2.11.json.gz").read_bytes())
    )
    for program in golden["programs"].values():
        for graph in program["graphs"]:
            for node in ast.walk(ast.parse(graph["code"])):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton":
                    yield ast.literal_eval(node.args[1])
    for file in sorted((ROOT / "data" / "kernel_ir").glob("*_*.json.gz")):
        yield json.loads(gzip.decompress(file.read_bytes()))["source"]


def test_every_source_that_inductor_wrote_is_accepted(helpers: Helpers) -> None:
    sources = list(recorded())
    assert len(sources) >= 110
    for source in sources:
        check_source(source, helpers)
        check_source("\n" + source, helpers)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_source_is_refused_with_its_line(name: str, helpers: Helpers) -> None:
    with pytest.raises(UntrustedSourceError, match=r"line \d+|characters|not valid Python"):
        check_source(HOSTILE[name], helpers)


def test_what_the_hostile_sources_are_made_of_is_accepted(helpers: Helpers) -> None:
    """Else they would be refused for something that is not meant."""
    check_source(HEAD, helpers)
    check_source(kernel(), helpers)
    check_source(
        kernel("x = tl.load(in_ptr0 + tl.arange(0, XBLOCK), None)\n    return libdevice.exp(x)"),
        helpers,
    )


def test_a_refusal_says_what_and_where(helpers: Helpers) -> None:
    with pytest.raises(UntrustedSourceError) as refused:
        check_source(HEAD + "import os\n", helpers)
    where = f"line {HEAD.count(chr(10)) + 1} of the kernel's source"
    assert str(refused.value).startswith(
        f"{where} is rejected: Inductor does not write this import: import os\n"
    )
    assert "Nothing of it ran" in str(refused.value)


def test_kernels_of_people_are_accepted(helpers: Helpers) -> None:
    """As Inductor copies them: helper functions, constants, defaults, assembly of one instruction."""
    check_source(
        HEAD
        + "FACTOR = tl.constexpr(3)\nMODE: tl.constexpr = 'fast'\nf32 = tl.float32\n"
        + "from triton.language.core import exp as my_exp\n"
        + "@triton.jit\ndef twice(x, y: tl.constexpr = 2):\n    return x * y * FACTOR\n"
        + "@triton_heuristics.user_autotune(configs=[{'BLOCK': 64, 'num_warps': 4}], inductor_meta={'precomputed_grids': "
        + "[{'config': {'BLOCK': 64}, 'python': ['(xnumel + 63)//64', '1', '1']}]}, triton_meta={}, filename=__file__, "
        + "custom_kernel=True)\n@triton.jit\ndef own(x_ptr, xnumel, BLOCK: tl.constexpr):\n"
        + "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        + "    if MODE == 'fast':\n        x = twice(tl.load(x_ptr + at, mask=at < xnumel)).to(f32)\n"
        + "    y = tl.inline_asm_elementwise('rsqrt.approx.f32 $0, $1;', '=f,f', [x], dtype=tl.float32, is_pure=True, pack=1)\n"
        + "    tl.store(x_ptr + at, my_exp(y) + tl.math.exp(x), mask=at < xnumel)\n",
        helpers,
    )
