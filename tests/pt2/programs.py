"""These programs are saved by torch.export, for tests of such files."""

from __future__ import annotations

from pathlib import Path

import torch


def save_relu(path: Path) -> Path:
    """Save the smallest program, with its inputs."""
    torch.export.save(
        torch.export.export(torch.nn.ReLU(), (torch.ones(2, 2),)), path.with_suffix(".pt2")
    )
    return path.with_suffix(".pt2").rename(path)
