"""Writes docs/reference/keys.md: the key table, as the app's commands declare it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "reference" / "keys.md"
OPENING = """\
# Keys

This page lists every key of the app, and the id by which it can be remapped.

Single keys move the cursor and do the most frequent things: `hjkl` and arrows, `1` to `9`,
`/ n N g G`, `b B`, `[ ]`, `f y i e r w s . ? q`, Enter and Escape. Everything else is in menus: a
leader key opens one at the bottom of the screen, and the next key chooses. `space` opens the menu
of everything, `v` views, `c` compiling, `x` fixing and measuring, `o` going somewhere, `p` panes,
`Y` copying. `v b` stands for `v` and then `b`. Escape leaves a menu; what does not apply now is
grey. Ctrl+P, or `space space`, finds any command by name, and says why one does not apply now.

A capital is the reverse of its small letter. A key does the same in every dialog: `n` and `N` go to
the next and the previous, `r` runs or tries, `s` saves or writes, `y` copies, Tab goes to the
other list, Escape and `q` close.

Remap a key in [the configuration file](config.md). A key may be a
sequence: `"pane.zoom" = "z z"`.

"""


def main(page: Path) -> None:
    command = [sys.executable, "-m", "fx_explorer", "keys", "--format", "markdown", "--default"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page.write_text(OPENING + table)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
