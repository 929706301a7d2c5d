"""A program as a file: versioned, checked when it is read, and loaded by the C++ runtime without Python.

    header      magic, format version, sections, size, checksum, machine, kernels   (64 bytes)
    table       name, offset and size of each section                               (24 bytes each)
    sections    inputs, outputs   lengths of the tensors (int64)
                buffers           records of runtime/program.h
                code              instructions, records of runtime/program.h
                consts            float32 values
                about             JSON for Python: layouts of tensors, names of nodes

The checksum is CRC-32 over the file, with zeros in its own place. ``runtime/load.cpp`` checks all of
this once more, and each record, because a file may come from anywhere.
"""

from __future__ import annotations

import json
import platform
import struct
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sample_backends.small_backend.errors import ArtefactRefused
from sample_backends.small_backend.program import (
    ABSENT,
    MAX_OPERANDS,
    MAX_RANK,
    Buffer,
    Instruction,
    Kind,
    Layout,
    Operand,
    Program,
    Result,
)

MAGIC = b"SMALLBE\0"
VERSION = 1
SUFFIX = ".small"

_HEADER = struct.Struct("<8sIIQII16s16s")
_SECTION = struct.Struct("<8sQQ")
_BUFFER = struct.Struct("<3q")
_INSTRUCTION = struct.Struct(f"<32s4i{MAX_RANK}q2d{MAX_OPERANDS * (2 + MAX_RANK)}q")
_CHECKSUM_AT = struct.calcsize("<8sIIQ")
_KINDS: tuple[Kind, ...] = ("input", "output", "arena", "constant")


def machine() -> str:
    """Return what the runtime calls this kind of processor."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(
        name, name if name in ("x86_64", "aarch64") else "other"
    )


def packed(program: Program, kernels: str) -> bytes:
    """Return the artefact of a program for the library with these kernels (``library.kernels()``)."""
    sections = {
        "inputs": _lengths(program.inputs),
        "outputs": _lengths(program.outputs),
        "buffers": b"".join(
            _BUFFER.pack(_KINDS.index(each.kind), each.start, each.length)
            for each in program.buffers
        ),
        "code": b"".join(map(_packed_instruction, program.instructions)),
        "consts": program.constants,
        "about": json.dumps(_about(program)).encode(),
    }
    place = _HEADER.size + len(sections) * _SECTION.size
    table = b""
    for name, content in sections.items():
        table += _SECTION.pack(name.encode(), place, len(content))
        place += len(content)
    header = (MAGIC, VERSION, len(sections), place, 0, 0, machine().encode(), kernels.encode())
    whole = bytearray(_HEADER.pack(*header) + table + b"".join(sections.values()))
    struct.pack_into("<I", whole, _CHECKSUM_AT, zlib.crc32(whole))
    return bytes(whole)


def unpacked(content: bytes) -> Program:
    """Return the program of an artefact. Raises ArtefactRefused."""
    parts = sections(content)
    try:
        about = json.loads(parts["about"])
        codes = _INSTRUCTION.iter_unpack(parts["code"])
        program = Program(
            inputs=tuple(map(_layout, about["inputs"])),
            outputs=tuple(map(_layout, about["outputs"])),
            results=tuple(
                Result(each["base"], each["number"], each["offset"], _layout(each["layout"]))
                for each in about["results"]
            ),
            buffers=tuple(
                Buffer(_KINDS[kind], start, length)
                for kind, start, length in _BUFFER.iter_unpack(parts["buffers"])
            ),
            constants=parts["consts"],
            instructions=tuple(
                _instruction(code, node) for code, node in zip(codes, about["nodes"], strict=True)
            ),
        )
        is_told = (
            _lengths(program.inputs) == parts["inputs"]
            and _lengths(program.outputs) == parts["outputs"]
        )
        fits = is_told and all(_lies_within(program, result) for result in program.results)
    except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        raise ArtefactRefused(
            f"the artefact is not well-formed: {type(error).__name__}: {error}"
        ) from error
    if not fits:
        raise ArtefactRefused(
            "the artefact is not well-formed: the layouts of its tensors are not those of its code"
        )
    return program


def sections(content: bytes) -> dict[str, bytes]:
    """Return the sections by name, after the checks of the file as a whole. Raises ArtefactRefused."""
    count = _checked_header(content)
    found = {}
    for place in range(_HEADER.size, _HEADER.size + count * _SECTION.size, _SECTION.size):
        name, offset, size = _SECTION.unpack_from(content, place)
        found[name.rstrip(b"\0").decode()] = content[offset : offset + size]
    return found


def read(path: Path) -> bytes:
    """Return the bytes of an artefact. Raises ArtefactRefused where there is none."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtefactRefused(f"the artefact {path} cannot be read: {error.strerror}") from error


def _checked_header(content: bytes) -> int:
    if len(content) < _HEADER.size:
        raise ArtefactRefused("the artefact is truncated: it ends within its header")
    magic, version, count, size, checksum, _, made_for, _ = _HEADER.unpack_from(content)
    if magic != MAGIC:
        raise ArtefactRefused("this is no artefact of small_backend: it does not begin as one")
    if version != VERSION:
        raise ArtefactRefused(
            f"the artefact has format version {version}, and this runtime reads version {VERSION}"
        )
    if size > len(content):
        raise ArtefactRefused(f"the artefact is truncated: it has {len(content)} of {size} bytes")
    if size < len(content):
        raise ArtefactRefused("the artefact was altered: something follows its end")
    if checksum != zlib.crc32(content[:_CHECKSUM_AT] + bytes(4) + content[_CHECKSUM_AT + 4 :]):
        raise ArtefactRefused("the artefact was altered: its checksum is not that of its content")
    other = made_for.rstrip(b"\0").decode(errors="replace")
    if other != machine():
        raise ArtefactRefused(
            f"the artefact was made for another machine: {other}, and this is {machine()}"
        )
    return int(count)


def _lengths(layouts: tuple[Layout, ...]) -> bytes:
    return struct.pack(f"<{len(layouts)}q", *(layout.length for layout in layouts))


def _lies_within(program: Program, result: Result) -> bool:
    bases = program.inputs if result.base == "input" else program.outputs
    numbers = (result.number, result.offset, *result.layout.sizes, *result.layout.strides)
    return min(numbers) >= 0 and result.offset + result.layout.length <= bases[result.number].length


def _about(program: Program) -> dict[str, Any]:
    tensors = {
        name: [asdict(each) for each in getattr(program, name)]
        for name in ("inputs", "outputs", "results")
    }
    return {**tensors, "nodes": [instruction.node for instruction in program.instructions]}


def _layout(about: dict[str, Any]) -> Layout:
    return Layout(tuple(map(int, about["sizes"])), tuple(map(int, about["strides"])))


def _packed_instruction(instruction: Instruction) -> bytes:
    operands = [*instruction.operands, *[ABSENT] * (MAX_OPERANDS - len(instruction.operands))]
    numbers = [
        number
        for each in operands
        for number in (each.buffer, each.offset, *_padded(each.strides, 0))
    ]
    counts = (len(instruction.sizes), instruction.inner, len(instruction.operands), 0)
    kernel = instruction.kernel.encode()
    return _INSTRUCTION.pack(
        kernel, *counts, *_padded(instruction.sizes, 1), *instruction.scalars, *numbers
    )


def _padded(numbers: tuple[int, ...], filler: int) -> tuple[int, ...]:
    return (*numbers, *[filler] * (MAX_RANK - len(numbers)))


def _instruction(record: tuple[Any, ...], node: str) -> Instruction:
    kernel, rank, inner, count, _ = record[:5]
    sizes, scalars, numbers = (
        record[5 : 5 + MAX_RANK],
        record[5 + MAX_RANK : 7 + MAX_RANK],
        record[7 + MAX_RANK :],
    )
    width = 2 + MAX_RANK
    operands = [numbers[k * width : (k + 1) * width] for k in range(count)]
    walked = tuple(
        ABSENT if each[0] < 0 else Operand(each[0], each[1], each[2 : 2 + rank])
        for each in operands
    )
    return Instruction(kernel.rstrip(b"\0").decode(), node, sizes[:rank], inner, walked, scalars)
