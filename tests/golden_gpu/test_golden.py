"""These tests compare kernels for a virtual H200 with those of a real one: kernel sources and PTX
to the byte, registers and memory to the number.

The golden file says with which torch and Triton it was recorded. With others there is nothing to
compare, and the tests are skipped: ``make newest TORCH=torch==2.11.0 ARGS='-k real_gpu'`` runs
them.
"""

from __future__ import annotations

import ast
import gzip
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import Document, text_of
from fx_explorer.session import SessionReader

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOLDEN: dict[str, Any] = json.loads(
    gzip.decompress((HERE / "h200_torch-2.11.json.gz").read_bytes())
)
RECORDED_WITH = {name: GOLDEN[name].split("+")[0] for name in ("torch", "triton")}
OPTIONS = {
    "matmul_template": (
        "--option",
        "max_autotune_gemm=True",
        "--option",
        "max_autotune_gemm_backends=TRITON",
    ),
    "dynamic_batch": ("--dynamic",),
}

Captured = Callable[..., Path]


def installed(name: str) -> str:
    try:
        return importlib.metadata.version(name).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


pytestmark = pytest.mark.skipif(
    {name: installed(name) for name in RECORDED_WITH} != RECORDED_WITH,
    reason=f"the golden file was recorded with torch {RECORDED_WITH['torch']} and triton {RECORDED_WITH['triton']}",
)


@pytest.fixture(params=list(GOLDEN["programs"]))
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(program: str, captured: Captured) -> Path:
    build = f"PROGRAMS[{program!r}]('cpu')"
    return captured(
        HERE / "programs.py",
        *OPTIONS.get(program, ()),
        call=f"{build}.call",
        inputs=f"{build}.arguments",
        gpu="h200",
    )


def test_kernel_sources_are_those_of_the_real_gpu(program: str, session: Path) -> None:
    expected = {
        (graph["is_backward"], name): bare(source)
        for graph in GOLDEN["programs"][program]["graphs"]
        for name, source in triton_sources(graph["code"]).items()
    }
    with SessionReader(session) as reader:
        made = {
            (kernel.direction == "backward", kernel.name): bare(
                text_of(reader, Document("artifact", kernel.artifact))
            )
            for kernel in reader.rows(model.Kernel)
            if kernel.language == "triton" and kernel.artifact
        }
    assert made == expected


def test_machine_code_is_that_of_the_real_gpu(program: str, session: Path, tmp_path: Path) -> None:
    expected = GOLDEN["programs"][program]["builds"]
    command = [sys.executable, str(HERE / "build_all.py"), str(session)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    made = [json.loads(line) for line in ended.stdout.splitlines()]
    assert set(map(what_it_is, made)) == set(map(what_it_is, expected))


def triton_sources(code: str) -> dict[str, str]:
    """Name → source of the ``async_compile.triton(name, source)`` calls of an output code."""
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    return {
        call.args[0].value: call.args[1].value
        for call in calls
        if ast.unparse(call.func) == "async_compile.triton"
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[1], ast.Constant)
    }


def bare(source: str) -> str:
    """Remove Triton's hash of its own installed files, which differs from one Python to the next."""
    return re.sub(r"('backend_hash': )'\w+'", r"\1''", source.strip())


def what_it_is(build: dict[str, Any]) -> tuple[object, ...]:
    """Return a build without the module it was compiled from: its path, and its name, which is a
    hash of text that ``bare`` removes.
    """
    code = re.sub(r'(\.file\s+\d+) ".*"', r"\1", build["ptx"])
    code = re.sub(r"(assertFile_\d+)\[.*\n", r"\1\n", code)
    code = re.sub(r"\bc[a-z2-7]{51}\.py", "module.py", code)
    code = code.partition("\t.section\t.debug_abbrev")[0]
    return (
        build["kernel"],
        tuple(sorted(build["options"].items())),
        code,
        build["registers"],
        build["local_words"],
        build["shared"],
    )
