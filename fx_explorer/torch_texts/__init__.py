"""Texts that torch writes, taken apart: stacks, reports of graph breaks, reasons of recompiles, printed graphs, guard trees,
generated code.

They are the same whether the recorder hears them in the process that compiles, or a reader finds them in a log: so
the standard library alone is needed, and no torch.
"""
