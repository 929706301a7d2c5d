"""What this machine lacks for torch.compile: a C++ compiler."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.session import SessionReader

NO_COMPILER = "no C++ compiler was found"
"""Beginning of what the recorder notes when it takes the place of the compiler's version."""


def find_missing_tools(reader: SessionReader) -> Iterator[Finding]:
    """Yield that there is no C++ compiler, without which no kernel for the CPU can be built."""
    for failure in reader.rows(model.Failure, where="recorder"):
        if NO_COMPILER in failure.message:
            yield Finding(
                kind="missing tool",
                text=(
                    "No C++ compiler was found: torch.compile with Inductor fails on this machine "
                    "when it builds its code."
                ),
                urgency="failed",
                topic="run",
                view="console",
                evidence=("The code shown is the code for g++. This capture built nothing.",),
                explanation=(
                    "Inductor compiles C++ for the CPU, and for the code that launches kernels on "
                    "a GPU."
                ),
                remedies=(
                    Remedy(
                        "Install one (Debian, Ubuntu: apt-get install g++), or set the variable "
                        "CXX to the path of one. fx-explorer doctor checks it."
                    ),
                    Remedy(
                        'Use torch.compile(…, backend="aot_eager"), which needs no compiler, but '
                        "fuses nothing.",
                        changes={"settings": {"compile.backend": "aot_eager"}, "build": True},
                    ),
                ),
            )
            return
