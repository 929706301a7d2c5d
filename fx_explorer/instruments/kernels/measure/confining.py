"""Confine a process that compiles untrusted kernels: a second wall behind
session/untrusted/triton_source.py.

The process gains no privileges, dumps no memory to disk, and has limits on its memory, its
processor time and the files it writes. It may write files wherever the user may: Landlock and
seccomp are not used.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys

PR_SET_NO_NEW_PRIVS = 38
"""The constant's value in linux/prctl.h."""

MEMORY_BYTES = 16 << 30
FILE_BYTES = 4 << 30
CPU_S = 900
"""Seconds of processor time for one request. LLVM takes seconds for most kernels, and minutes for
the largest.
"""


def confine() -> None:
    """Confine this process for good, and whatever it starts (ptxas, nvdisasm)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, MEMORY_BYTES)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)


def renew_cpu_time() -> None:
    """Give the next request its own processor time. When the time is up, SIGXCPU ends the
    process.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    wanted = int(used.ru_utime + used.ru_stime) + CPU_S
    # The hard limit stays: a process that lowers it cannot raise it again for the next request.
    resource.setrlimit(
        resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
    )


def _limit(what: int, most: int) -> None:
    """Set a limit, but never above what is allowed already."""
    hard = resource.getrlimit(what)[1]
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(ValueError, OSError):  # a system that lacks this limit has the others
        # The hard limit too, or the code that is confined could lift the other.
        resource.setrlimit(what, (limit, limit))
