"""These fixtures share one cache for all tests of the sample backend, so that its runtime is
compiled once, and reset torch's compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from sample_backends.small import small
from sample_backends.small_backend import cache

Cut = Callable[..., dict[str, list[str]]]


@pytest.fixture(scope="session")
def runtime_cache(shared_folder: Path) -> Path:
    return shared_folder / "small_backend"


@pytest.fixture(autouse=True)
def in_this_cache(runtime_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SMALL_BACKEND_CACHE", str(runtime_cache))
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def counts() -> Iterator[cache.Counter[cache.Origin]]:
    """How often programs were made and used, from 0."""
    cache.counts.clear()
    return cache.counts


class Attention(nn.Module):
    """A transformer block whose attention is written out, so that all of it is in the registry."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        mixed = torch.softmax(scores, -1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def compiled(function: Callable[..., object], **options: object) -> Callable[..., object]:
    made: Callable[..., object] = torch.compile(function, backend=small, **options)  # type: ignore[call-overload]
    return made
