"""``python -m fx_explorer``: the same as the ``fx-explorer`` command."""

from __future__ import annotations

import sys

from fx_explorer.cli import main

if __name__ == "__main__":
    sys.exit(main())
