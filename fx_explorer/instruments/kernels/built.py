"""How many kernels of a session were built: all of a run with ``--build``; of an inspected one
those whose code was saved, since a file has built kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernel_count


@dataclass(frozen=True, slots=True)
class BuiltKernels:
    """How many of the kernels that a program has were built."""

    built: int
    kernels: int
    """Generated functions and library calls of the variants in use, as in the totals."""

    @property
    def in_words(self) -> str:
        """Return ``built``, ``not built``, or ``2 built``, which stands behind how many there are;
        empty where there is none.
        """
        if not self.kernels:
            return ""
        if not self.built:
            return "not built"
        return "built" if self.built == self.kernels else f"{self.built:,} built"


def built_kernels(reader: SessionReader) -> BuiltKernels:
    """Count the kernels, and those of them that were built."""
    used = in_use(reader)
    kernels = used.kernels if used else None
    count = kernel_count(reader, kernels)
    if reader.meta("build"):
        return BuiltKernels(count, count)
    saved = set(saved_compilations(reader))
    if not saved:
        return BuiltKernels(0, count)
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    built = {
        kernel.id
        for kernel in reader.rows(model.Kernel)
        if names.get(kernel.compilation) in saved and (kernels is None or kernel.id in kernels)
    }
    return BuiltKernels(kernel_count(reader, built), count)


def saved_compilations(reader: SessionReader) -> list[str]:
    """Return the names of the compilations whose code was built to be saved."""
    return sorted(reader.meta("built_to_save") or ())
