"""These helpers load the recorded kernels of tests/data/kernel_ir."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fx_explorer.analysis.kernel_documents import lines_of_level
from fx_explorer.analysis.kernel_lines import KernelFile, LineMap
from fx_explorer.model import Level

DATA = Path(__file__).parents[2] / "data" / "kernel_ir"

NAMES = ("h100_softmax", "h100_matmul", "a100_matmul", "mi300x_softmax", "mi300x_matmul")


@dataclass(frozen=True)
class Sample:
    name: str
    gpu: str
    source: str
    file: KernelFile
    levels: dict[Level, str]
    fields: dict[str, Any]

    def lines(self, level: Level) -> LineMap:
        return lines_of_level(level, self.levels[level], self.file, self.levels.get("ptx", ""))

    def line_of(self, code: str) -> int:
        """Return the number of the only line of the Triton source that holds ``code``."""
        (line,) = (number for number, text in enumerate(self.source.split("\n"), 1) if code in text)
        return line

    def made_of(self, level: Level, code: str) -> list[str]:
        """The lines of a level that were made from the line with ``code``."""
        wanted = self.line_of(code)
        text = self.levels[level].split("\n")
        return [
            text[number - 1].strip()
            for number, sources in self.lines(level).items()
            if wanted in sources
        ]


def sample(name: str) -> Sample:
    fields = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    file = KernelFile(fields["file"], lines_before=1)
    return Sample(
        name,
        fields["gpu"],
        fields["source"],
        file,
        cast("dict[Level, str]", fields["levels"]),
        fields,
    )


def dump() -> str:
    return gzip.decompress((DATA / "dump.txt.gz").read_bytes()).decode()
