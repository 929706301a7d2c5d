"""The directories that torch writes for ``TORCH_COMPILE_DEBUG=1``, as sessions."""

from fx_explorer.readers.debug_directory.found import is_debug_directory
from fx_explorer.readers.debug_directory.read_directory import read_directory

__all__ = ["is_debug_directory", "read_directory"]
