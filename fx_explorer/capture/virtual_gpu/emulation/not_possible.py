"""Explain, in place of torch's own message, what a program asks of a GPU that cannot be done
without one.
"""

from __future__ import annotations

import traceback

from fx_explorer.capture.virtual_gpu.causes import chain

NO_NCCL = (
    "NCCL sends data between GPUs, which are not there: nothing can be sent on a virtual GPU. "
    'Choose the backend "gloo" for this run and keep the model on the CPU: its graphs are moved to the virtual GPU.'
)


def not_possible(error: BaseException) -> str:
    """Return the explanation; empty for another error."""
    return NO_NCCL if any(_is_of_nccl(one) for one in chain(error)) else ""


def _is_of_nccl(error: BaseException) -> bool:
    """Return whether the error is about NCCL. A build without NCCL says so; one with it fails in
    making the group (torch/distributed/distributed_c10d.py).
    """
    made_group = any(
        frame.name == "_new_process_group_helper"
        for frame in traceback.extract_tb(error.__traceback__)
    )
    return made_group and any(word in str(error) for word in ("NCCL", "CUDA"))
