"""Torch builds kernels in processes of its own, where it may use several threads."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here
from torch._inductor.compile_worker.subproc_pool import SubprocKind, SubprocPool

compile_here()
for kind in SubprocKind:
    pool = SubprocPool(2, kind=kind)
    print(pool.submit(abs, -1).result())
