"""Processes that build, measure or disassemble kernels of a session."""
