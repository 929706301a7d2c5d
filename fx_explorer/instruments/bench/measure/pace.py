"""How long the processors take just now to share an operation.

Every parallel operation waits until its threads have heard of it, and until the last of them is
done. On a virtual machine that may take half as long again for seconds or a minute, as its host
moves the processors, and work on one thread does not show it. Measured on two virtual processors
within one minute: an addition on two threads took 5.2 µs and then 7.4 µs, a compiled ViT 484 µs and
630 µs in the same seconds, while a loop of Python's, a matrix product and the ViT on one thread
took the same to 2 %.
"""

from __future__ import annotations

import time
from statistics import median

import torch

PIECE = 20_000
"""Elements for each thread: so few that sharing them takes about as long as adding them."""

CALLS = 200


def sharing_s() -> float:
    """Return the seconds that an addition takes which all of torch's threads share, median of
    ``CALLS``; 0 with one thread. Takes some milliseconds.
    """
    threads = torch.get_num_threads()
    if threads < 2:
        return 0.0
    values = torch.ones(PIECE * threads, dtype=torch.float32, device="cpu")
    sums, took_s = torch.empty_like(values), []
    with torch.no_grad():
        for _ in range(CALLS):
            began = time.perf_counter()
            torch.add(values, 1.0, out=sums)
            took_s.append(time.perf_counter() - began)
    return median(took_s)
