"""The colour of a region, always beside its name: the same in every pane and in every session."""

from __future__ import annotations

from zlib import crc32

COLOURS = 5
"""Kinds ``region-0`` … of palette.py; with more regions some share one."""


def region_kind(name: str) -> str:
    # Not hash(), which is another one in each process.
    return f"region-{crc32(name.encode(errors='replace')) % COLOURS}"
