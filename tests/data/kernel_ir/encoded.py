"""Makes encoded.json.gz: SASS with its encoding, and what nvdisasm says of its registers. Run it in a folder to be filled:

    python -m tests.data.kernel_ir.encoded WORK

It needs Triton, whose ptxas-blackwell and nvdisasm are of one version: nvdisasm counts live registers of no other code.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

RECORDED = (
    ("a100_matmul", "sm_80"),
    ("h100_matmul", "sm_90a"),
    *(("h100_softmax", architecture) for architecture in ("sm_89", "sm_90a", "sm_100a", "sm_120a")),
)


@triton.jit
def softmax_and_argmax(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + i, e / tl.sum(e) + tl.floor(v), mask=i < n)
    tl.store(y + B, tl.argmax(v, 0).to(tl.float32))


@triton.jit
def half(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    w = tl.load(y + i, mask=i < n)
    tl.store(y + i, tl.where(v > w, v * w + v, tl.maximum(v, w)), mask=i < n)


@triton.jit
def swap(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_xchg(y + (i % 16), v, mask=i < n)
    tl.store(x + i, tl.atomic_cas(y + (i % 16), v, v + 1), mask=i < n)


@triton.jit
def wide(x, y, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, (v * v) // 7 + v % 5 + (v >> 3), mask=i < n)


@triton.jit
def loop(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for k in range(0, n):
        v = tl.load(x + k * B + i)
        if tl.sum(v) > 0:
            acc += v * v
        else:
            acc -= tl.sigmoid(v)
    tl.store(y + i, acc)


@triton.jit
def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for j in range(0, 4):
        x = tl.load(a + m[:, None] * 512 + k[None, :] + j * K)
        acc = tl.dot(x, tl.load(b + (k[:, None] + j * K) * N + n[None, :]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


_XYN = {"n": "i32"}
WRITTEN = {
    "argmax": (softmax_and_argmax, {"x": "*fp32", "y": "*fp32", **_XYN}, {"B": 1024}, (80, 100)),
    "half": (half, {"x": "*fp16", "y": "*fp16", **_XYN}, {"B": 2048}, (90, 100)),
    "swap": (swap, {"x": "*i64", "y": "*i64", **_XYN}, {"B": 256}, (80, 90, 120)),
    "wide": (wide, {"x": "*i64", "y": "*i64", "n": "i64"}, {"B": 512}, (90, 120)),
    "loop": (loop, {"x": "*fp32", "y": "*fp32", **_XYN}, {"B": 512}, (80, 90)),
    "tf32": (
        matmul,
        {"a": "*fp32", "b": "*fp32", "c": "*fp32"},
        {"M": 32, "N": 32, "K": 16},
        (80,),
    ),
    "fp8": (
        matmul,
        {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32"},
        {"M": 64, "N": 64, "K": 64},
        (90,),
    ),
}
"""Name → function, its signature, its constants, and the GPUs that it is compiled for."""


def main(work: Path) -> None:
    found = {}
    for name, architecture in RECORDED:
        ptx = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))["levels"]["ptx"]
        found[f"{name.partition('_')[2]}_{architecture}"] = encoded(work, ptx, architecture)
    for name, (function, signature, constants, capabilities) in WRITTEN.items():
        for capability in capabilities:
            types = {**signature, **dict.fromkeys(constants, "constexpr")}
            source = ASTSource(fn=function, signature=types, constexprs=constants)
            built = triton.compile(
                source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4}
            )
            suffix = "a" if capability >= 90 else ""
            found[f"{name}_sm_{capability}{suffix}"] = encoded(
                work, built.asm["ptx"], f"sm_{capability}{suffix}"
            )
    (HERE / "encoded.json.gz").write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


def encoded(work: Path, ptx: str, architecture: str) -> dict[str, object]:
    """Return a kernel's SASS with its encoding, and the live registers by address."""
    source, cubin = work / "kernel.ptx", work / "kernel.cubin"
    source.write_text(re.sub(r"^\.target .*$", f".target {architecture}", ptx, flags=re.MULTILINE))
    run("ptxas-blackwell", "-lineinfo", f"--gpu-name={architecture}", str(source), "-o", str(cubin))
    rows = re.findall(
        r"^\s+/\*([0-9a-f]{4,})\*/.*// \|([^|]*)\|",
        run("nvdisasm", "-c", "-lrm", "count", str(cubin)),
        re.MULTILINE,
    )
    live = {address: int(count.strip() or 0) for address, count in rows}
    return {"sass": run("nvdisasm", "-gi", "-ndf", "-c", "-hex", str(cubin)), "live": live}


def run(tool: str, *arguments: str) -> str:
    return subprocess.run(
        [TOOLS / tool, *arguments], capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
