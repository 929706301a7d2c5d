"""Recompiles: one compiled function, called six ways; see which guard failed each time, and why."""

import torch

scale = 2.0


@torch.compile
def score(x: torch.Tensor, power: int, *, centred: bool = False) -> torch.Tensor:
    if centred:
        x = x - x.mean()
    return (x.abs() + 1.0).pow(power).sum() * scale


def main() -> None:
    global scale
    x = torch.randn(8, 16)
    score(x, 2)
    score(torch.randn(12, 16), 2)  # another size: the first dimension becomes a symbol
    score(x, 3)  # another number
    score(x, 3, centred=True)  # the other branch
    score(x.double(), 3)  # another dtype
    scale = 4.0
    score(x, 3)  # a global that the function reads
    print("score", score(x, 3).item())


if __name__ == "__main__":
    main()
