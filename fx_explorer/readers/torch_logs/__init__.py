"""The text that torch prints for ``TORCH_LOGS``, pasted into a file, as a session."""

from fx_explorer.readers.torch_logs.read_text import read_text

__all__ = ["read_text"]
