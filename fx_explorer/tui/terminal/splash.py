"""The first words on screen, before Textual is there: importing it and painting its first frame
takes 400 ms.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterable, Iterator

from fx_explorer.highlight import printable

RAISE = "\x1b[?1049h\x1b[2J\x1b[H"
"""The alternate screen, empty. Textual switches to it as well, which changes nothing then, and back
when it ends.
"""

LOWER = "\x1b[?1049l"


@contextlib.contextmanager
def splash(words: str) -> Iterator[None]:
    """Show ``words`` at once, and until the app paints over them; take them away when what is
    inside fails.
    """
    sys.stdout.write(f"{RAISE} \x1b[1m{printable(words)}\x1b[0m")
    sys.stdout.flush()
    try:
        yield
    except BaseException:
        sys.stdout.write(LOWER)
        sys.stdout.flush()
        raise


def add_to_splash(lines: Iterable[str]) -> None:
    """Show further lines below the first words, as many and as much of each as the terminal has
    room for.
    """
    width, height = shutil.get_terminal_size()
    shown = [_cut(printable(line), max(0, width - 2)) for line in lines][: max(0, height - 3)]
    if shown:
        sys.stdout.write("\r\n" + "".join(f"\r\n {line}" for line in shown))
        sys.stdout.flush()


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"[:width]
