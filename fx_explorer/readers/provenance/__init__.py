"""torch's tables of what each kernel computes, as sessions and as documents."""

from fx_explorer.readers.provenance.in_words import in_words
from fx_explorer.readers.provenance.read_table import read_table

__all__ = ["in_words", "read_table"]
