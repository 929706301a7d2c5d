"""Logs that torch writes for ``TORCH_TRACE`` become sessions."""

from fx_explorer.readers.torch_trace.read_log import read_log

__all__ = ["read_log"]
