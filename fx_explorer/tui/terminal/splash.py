"""The first words on screen, before Textual is there: importing it and painting its first frame
takes 400 ms.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

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
