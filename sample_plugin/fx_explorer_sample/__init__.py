"""One plug-in of each kind for fx-explorer. docs/extend/plugins.md explains them."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.plugins import GpuFile

RTX_4090 = GpuFile(interface=1, file=Path(__file__).parent / "rtx4090.toml")
"""A GPU for ``--gpu rtx4090``."""
