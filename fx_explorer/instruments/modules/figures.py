"""What torch.compile made of one module, in figures that add up."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class ModuleFigures:
    """Figures of a module, with or without those of the modules in it."""

    breaks: int = 0
    """Distinct graph breaks, by line and cause."""
    operations: int = 0
    """Operations that Dynamo captured."""
    calls: int = 0
    """Calls of kernels, generated ones and those of libraries."""
    time_s: float = 0.0
    """Seconds of these calls, as the view of kernels has them; 0 where they are not known."""
    saved_bytes: int = 0
    """What it keeps for the backward; a storage counts once."""
    compile_s: float = 0.0
    """Its share of the seconds that the compilations took, by its operations."""

    def __add__(self, other: ModuleFigures) -> ModuleFigures:
        return ModuleFigures(
            *(getattr(self, one.name) + getattr(other, one.name) for one in fields(ModuleFigures))
        )


NOTHING = ModuleFigures()
