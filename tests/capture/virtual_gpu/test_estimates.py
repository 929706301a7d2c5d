"""These tests check that Inductor's estimates are read without changing the generated code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fx_explorer import model
from fx_explorer.session import SessionReader

Captured = Callable[..., Path]


def test_a_size_that_varies_still_varies_when_operations_are_counted(captured: Captured) -> None:
    """Counting the operations of a matrix multiplication gives a symbol: made a number, it would
    fix the batch.
    """
    with SessionReader(captured("mlp", dynamic=True, gpu="h100")) as reader:
        (batch,) = (
            symbol for symbol in reader.rows(model.Symbol) if "size()[0]" in str(symbol.sources)
        )
        kernels = [
            kernel for kernel in reader.rows(model.Kernel) if kernel.name == "extern_kernels.addmm"
        ]
    assert not batch.became
    assert kernels[0].estimated_flops == 2 * 4 * 32 * 64
