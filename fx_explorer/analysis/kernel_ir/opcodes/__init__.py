"""What PTX and SASS instructions do, a sentence each: ``ptx.toml`` and ``sass.toml``, and how a
name is looked up in them.
"""
