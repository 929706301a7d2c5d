"""The logs of tritonparse become sessions: the Triton kernels that a program compiled, their texts,
and how they were launched.
"""

from fx_explorer.readers.tritonparse.read_events import read_tritonparse

__all__ = ["read_tritonparse"]
