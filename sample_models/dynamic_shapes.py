"""Dynamic shapes: a batch and a length that may change become symbols; see where each came from and what it must satisfy."""

import torch
import torch.nn.functional as F


def masked_pool(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Mean over the first ``lengths[i]`` rows of ``values[i]``; shapes (batch, length, width) and (batch,)."""
    _, length, width = values.shape
    if length > 4:
        values = F.gelu(values)
    mask = torch.arange(length, device=values.device) < lengths[:, None]
    total = (values * mask[:, :, None]).sum(1)
    return total.reshape(-1, width) / lengths[:, None]


def fx_explorer_target():
    values = torch.randn(4, 12, 16, requires_grad=True)
    lengths = torch.tensor([12, 3, 7, 1])
    torch._dynamo.mark_dynamic(values, (0, 1))
    torch._dynamo.mark_dynamic(lengths, 0)
    return masked_pool, (values,), {"lengths": lengths}
