"""A process like the worker that makes library calls of generated code, one by one and with zeros for
content, and tells what each takes of the GPU's memory.

It is a process of its own because such a call may end it: native code trusts what it is given. Its
input is a JSON object: the calls, and what the program chose that decides how libraries do them. It
answers with a line for each call, ``{"size_bytes": …}`` or ``{"problem": …}``, and the call that it
died of is the first without an answer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

LONGEST = 500
"""Characters of a message. A line is to go through a pipe in one piece."""

GPU_IS_LOST = "CUDA error"
"""What torch says when nothing more can be done on the GPU in this process."""


def main(notices: int, commands: int) -> None:
    with os.fdopen(commands, encoding="utf-8") as lines:
        asked = json.load(lines)
    import torch

    from fx_explorer.capture.inductor.library_calls import prepared
    from fx_explorer.model.library_call import LibraryCall

    torch.backends.cudnn.benchmark = asked["benchmark"]
    torch.backends.cudnn.allow_tf32 = asked["allow_tf32"]
    torch.set_float32_matmul_precision(asked["precision"])
    torch.use_deterministic_algorithms(asked["deterministic"], warn_only=asked["warn_only"])
    for text in asked["calls"]:
        call = LibraryCall.from_json(text)
        answer: dict[str, object]
        try:
            with torch.no_grad():
                for _ in range(2):  # the first of a kind may take what its library keeps for good
                    size_bytes = _beside_results(prepared(call), torch.device(call.device))
            answer = {"size_bytes": size_bytes}
        except Exception as error:  # noqa: BLE001 - told: whatever the call raises, the others are made
            answer = {"problem": f"{type(error).__name__}: {error}".partition("\n")[0][:LONGEST]}
        os.write(notices, json.dumps(answer).encode() + b"\n")
        if GPU_IS_LOST in str(answer.get("problem", "")):
            break
    os._exit(0)  # torch takes a second to release the GPU


def _beside_results(run: Callable[[], object], device: torch.device) -> int:
    """Return the most that a call has allocated beyond what it returns, in bytes."""
    import torch

    torch.cuda.reset_peak_memory_stats(device)
    returned = run()
    most, kept = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del returned
    return max(0, most - kept)
