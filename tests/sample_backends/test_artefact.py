"""These tests check that an artefact that was changed in any way is refused, in a sentence, by
Python and by the runtime alike.
"""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from sample_backends.small_backend import artefact
from sample_backends.small_backend.errors import ArtefactRefused
from sample_backends.small_backend.library import kernels, library, standalone
from sample_backends.small_backend.lowering.lowering import lowered
from sample_backends.small_backend.partition import partitioned, segments_of
from sample_backends.small_backend.program import ABSENT, Program
from sample_backends.small_backend.support import SmallSupport


@pytest.fixture(scope="module")
def program() -> Program:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.softmax(F.gelu(x @ weight.t()) + torch.tensor([1.0, 2.0, 3.0]), -1) * 2

    graph_module = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(
        torch.randn(4, 5), torch.randn(3, 5)
    )
    (segment,) = segments_of(partitioned(graph_module, SmallSupport())).values()
    return lowered(segment)


@pytest.fixture
def content(program: Program, in_this_cache: None) -> bytes:
    return artefact.packed(program, kernels())


def refusal(content: bytes) -> tuple[str, str]:
    """Return the reasons for which Python and the runtime refuse these bytes. Fails when either
    accepts them.
    """
    with pytest.raises(ArtefactRefused) as by_python:
        artefact.unpacked(content)
    with pytest.raises(ArtefactRefused) as by_runtime:
        library().load(content)
    return str(by_python.value), str(by_runtime.value)


def resealed(content: bytearray) -> bytes:
    """The same with a checksum that is right, as somebody would write who means harm."""
    struct.pack_into("<I", content, 24, 0)
    struct.pack_into("<I", content, 24, zlib.crc32(content))
    return bytes(content)


def test_what_was_written_is_read(program: Program, content: bytes) -> None:
    assert artefact.unpacked(content) == program
    library().load(content)


def test_one_that_is_truncated_anywhere_is_refused(content: bytes) -> None:
    for size in range(0, len(content), 7):
        for sentence in refusal(content[:size]):
            assert sentence.startswith("the artefact is truncated: it ")
    assert (
        refusal(content[:-1])[0]
        == f"the artefact is truncated: it has {len(content) - 1} of {len(content)} bytes"
    )


def test_one_with_an_altered_byte_is_refused(content: bytes) -> None:
    chosen = random.Random(7)
    for place in [*range(64), *chosen.sample(range(64, len(content)), 200)]:
        altered = bytearray(content)
        altered[place] ^= chosen.randrange(1, 256)
        refusal(bytes(altered))


def test_one_with_something_added_is_refused(content: bytes) -> None:
    assert set(refusal(content + b"\0")) == {"the artefact was altered: something follows its end"}


def test_one_of_another_version_is_refused(content: bytes) -> None:
    altered = bytearray(content)
    struct.pack_into("<I", altered, 8, 2)
    assert set(refusal(resealed(altered))) == {
        "the artefact has format version 2, and this runtime reads version 1"
    }


def test_one_for_another_machine_is_refused(content: bytes) -> None:
    altered = bytearray(content)
    struct.pack_into("16s", altered, 32, b"riscv64")
    for sentence in refusal(resealed(altered)):
        assert sentence.startswith("the artefact was made for another machine: riscv64")


def test_one_for_other_kernels_is_refused(program: Program) -> None:
    with pytest.raises(
        ArtefactRefused,
        match=r"^the artefact was made for other kernels: 0123456789abcdef, and this library has ",
    ):
        library().load(artefact.packed(program, "0123456789abcdef"))


def test_what_is_no_artefact_is_refused() -> None:
    assert set(refusal(b"\x7fELF" + bytes(100))) == {
        "this is no artefact of small_backend: it does not begin as one"
    }


def test_what_the_runtime_accepts_stays_within_its_memory(content: bytes) -> None:
    """Numbers in the code are replaced by absurd ones, under a right checksum."""
    code, size = (
        content.index(artefact.sections(content)["code"]),
        len(artefact.sections(content)["code"]),
    )
    chosen, refused = random.Random(3), 0
    for place in range(code + 32, code + size - 8, 8):
        altered = bytearray(content)
        struct.pack_into("<q", altered, place, chosen.choice([-1, -5, 2**62, 2**31, 1000, 7]))
        try:
            library().load(resealed(altered))
            read = artefact.unpacked(resealed(altered))
        except ArtefactRefused:
            refused += 1
        else:
            assert stays_within(read)
    assert refused > 50


def stays_within(program: Program) -> bool:
    """Whether every operand's first and last element lie in its buffer, by our own count."""
    for instruction in program.instructions:
        for operand in (each for each in instruction.operands if each != ABSENT):
            steps = [
                (size - 1) * stride
                for size, stride in zip(instruction.sizes, operand.strides, strict=True)
            ]
            reach = operand.offset + sum(steps)
            if (
                min(operand.offset, *steps, 0) < 0
                or reach >= program.buffers[operand.buffer].length
            ):
                return False
    return True


def test_the_program_without_python_refuses_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "cut.small"
    file.write_bytes(content[:100])
    ended = subprocess.run(
        [standalone(), file], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert (
        ended.stderr
        == f"{file} is refused: the artefact is truncated: it has 100 of {len(content)} bytes\n"
    )
