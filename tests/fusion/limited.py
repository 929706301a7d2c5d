"""A target with kernels that only an option keeps apart, and two with another one between them."""

import torch
import torch._inductor.config

torch._inductor.config.max_fusion_size = 2


def normalized(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    sine = x.sin()
    rest = sine - sine.sum(1, keepdim=True)
    scaled = rest * rest.cos().sum(1, keepdim=True)
    columns = torch.softmax(y, 0)
    return scaled, (rest + 1).amax(1), torch.softmax(columns, 1), columns


example_inputs = (
    torch.linspace(-1, 1, 64 * 128).reshape(64, 128),
    torch.linspace(-1, 1, 64 * 128).reshape(64, 128),
)
