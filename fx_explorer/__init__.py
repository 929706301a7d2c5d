"""fx-explorer: see what torch.compile did to your model, in your terminal.

Importing this package is instant: nothing below imports torch until it is used.
"""

from __future__ import annotations

__version__ = "0.1.0"
