"""An ordinary training script that knows nothing of fx-explorer: ``fx-explorer run script.py -- --steps 3``."""

import argparse

import torch
from torch import nn


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fit a small network to a sine.")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=32)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, arguments.hidden), nn.Tanh(), nn.Linear(arguments.hidden, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.linspace(-3, 3, 64).unsqueeze(1)
    y = torch.sin(x)

    @torch.compile
    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(x), y)

    for step in range(arguments.steps):
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
