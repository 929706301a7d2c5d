"""The directories that torch writes for ``TORCH_COMPILE_DEBUG=1``, as sessions.

Nothing is imported here: every start asks ``found.py``, and only such a directory needs what reads it.
"""
