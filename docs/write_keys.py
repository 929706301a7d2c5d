"""Writes docs/keys.md: the key table, as the app's commands declare it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("keys.md")
OPENING = """\
# Keys

Any of them can be remapped by its id, in `~/.config/fx-explorer/config.toml`: see `fx-explorer keys --help`.
This page is written by `make docs`.

"""


def main(page: Path) -> None:
    command = [sys.executable, "-m", "fx_explorer", "keys", "--format", "markdown", "--default"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page.write_text(OPENING + table)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
