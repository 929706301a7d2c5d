"""These tests check which line of a C++ kernel an instruction is said to be from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from fx_explorer.instruments.kernels.cpp_assembly import (
    NO_OBJDUMP,
    Instruction,
    instructions,
    interleaved,
)
from tests.exhaustive import in_exhaustive_runs

SOURCE = """#include <immintrin.h>
static inline __m256 load(const float* p) { return _mm256_loadu_ps(p); }
extern "C" void kernel(const float* a, float* b) {
  for (int i = 0; i < 64; i += 8) {
    _mm256_storeu_ps(b + i, load(a + i));
  }
}
"""

DISASSEMBLY = """
kernel.o:     file format elf64-x86-64

0000000000000000 <std::mutex::lock()>:
/usr/include/mutex:12
   0:\tret

0000000000000010 <kernel>:
kernel():
/tmp/x/kernel.cpp:4
  10:\tpush   %rbp
_mm256_loadu_ps(float const*):
/usr/lib/gcc/include/avxintrin.h:149
inlined by /tmp/x/kernel.cpp:2 (load)
inlined by /tmp/x/kernel.cpp:5 (kernel)
  14:\tvmovups (%rdi),%ymm1
/usr/lib/gcc/include/avxintrin.h:911
inlined by /tmp/x/kernel.cpp:5 (kernel)
  18:\tvmovups %ymm1,(%rsi)
/usr/lib/gcc/include/avxintrin.h:900
  1c:\tvzeroupper
"""
"""In the form of ``objdump -d -l --inlines -C --no-show-raw-insn -w`` (GNU binutils 2.40)."""


def test_an_inlined_instruction_is_of_the_innermost_line_of_the_kernel() -> None:
    assert list(instructions(DISASSEMBLY)) == [
        Instruction("kernel", "10", "push   %rbp", 4),
        Instruction("kernel", "14", "vmovups (%rdi),%ymm1", 2),
        Instruction("kernel", "18", "vmovups %ymm1,(%rsi)", 5),
        Instruction("kernel", "1c", "vzeroupper", 0),
    ]


def test_instructions_stand_below_their_lines() -> None:
    rows = interleaved(SOURCE, instructions(DISASSEMBLY))
    assert rows[:3] == [
        "kernel:",
        "    4  for (int i = 0; i < 64; i += 8) {",
        "             10  push   %rbp",
    ]
    assert rows[-2].endswith("no line of the kernel")


def test_a_line_that_the_source_has_not_is_shown_as_unknown() -> None:
    rows = interleaved("one line", [Instruction("kernel", "0", "ret", 7)])
    assert rows[1].endswith("no line of the kernel")


@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
def test_objdump_here_writes_what_is_read(tmp_path) -> None:
    (tmp_path / "kernel.cpp").write_text(SOURCE)
    flags = ["-O3", "-g", "-mavx", "-c", "kernel.cpp", "-o", "kernel.o"]
    if subprocess.run(["g++", *flags], cwd=tmp_path, check=False, timeout=60).returncode:
        pytest.skip("this compiler has no AVX")
    command = ["objdump", "-d", "-l", "--inlines", "-C", "--no-show-raw-insn", "-w", "kernel.o"]
    # An object file names its source as the compiler was given it.
    text = subprocess.run(
        command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    moves = [row for row in instructions(text) if row.text.startswith("vmovups")]
    assert moves
    assert {row.line for row in moves} <= {2, 5}


@in_exhaustive_runs
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
def test_the_command_shows_the_vector_instructions_of_a_kernel(captured, fx_explorer) -> None:
    session = captured("tests/decisions/planted_cpu.py")
    command = [*fx_explorer, "kernel", str(session), "cpp_fused_add_slice_view_0"]
    ended = subprocess.run(
        [*command, "--level", "assembly", "--python", sys.executable],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^ +\d+  auto tmp\d+ = .*\n +[0-9a-f]+  v", ended.stdout, re.MULTILINE)


def test_without_objdump_it_says_so(captured, fx_explorer, tmp_path) -> None:
    session = captured("tests/decisions/planted_cpu.py")
    ended = subprocess.run(
        [*fx_explorer, "kernel", str(session), "bessel", "--level", "assembly", "--trust"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert NO_OBJDUMP.split(".", maxsplit=1)[0] in " ".join(ended.stderr.split())
