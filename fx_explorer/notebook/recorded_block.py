"""This module records a block of the user's program, as a session that shows itself in a
notebook.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fx_explorer.capture import recorder
from fx_explorer.notebook.session_file import SessionFile


@contextlib.contextmanager
def record(
    path: str | Path, *, build: bool = True, use_caches: bool = False, record_trace: bool = False
) -> Iterator[SessionFile]:
    """Record everything ``torch.compile`` does inside the block into the session file ``path``.

    Open it with ``fx-explorer PATH``, during the block or after it; in a notebook it shows its
    overview as the value of a cell. ``build=False`` inspects: all code is generated, none is built,
    and compiled functions run eagerly. ``use_caches`` leaves torch's compile caches on; what comes
    out of a cache was not compiled, so there is less to see. ``record_trace`` records each
    instruction that Dynamo traces with its symbolic stack and variables.

    What is compiled inside the block stays in use after it, also without ``build``. An exception of
    the block's passes through, and the session is complete up to it. Raises SessionWriteError when
    ``path`` cannot be written, FileExistsError when something is there already.

    >>> import torch, tempfile, fx_explorer
    >>> with fx_explorer.record(tempfile.mkdtemp() + "/run.fxs", build=False) as session:
    ...     y = torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    >>> session.name
    'run.fxs'
    """
    options = {"build": build, "use_caches": use_caches, "record_trace": record_trace}
    with recorder.record(path, **options) as recorded:
        yield SessionFile(recorded)
