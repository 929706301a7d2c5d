"""``fx_explorer.record`` runs the recorder in the user's own process: a notebook, a training
script, one rank under torchrun.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.capture.options.catalogue import add_catalogue, in_force
from fx_explorer.capture.recorder import recording
from fx_explorer.errors import SessionWriteError
from fx_explorer.model import CONSOLE, CaptureRequest, Outcome
from fx_explorer.session import SessionWriter


@contextlib.contextmanager
def record(path: str | Path, *, build: bool = True, use_caches: bool = False) -> Iterator[Path]:
    """Record everything ``torch.compile`` does inside the block into the session file ``path``.

    Open it with ``fx-explorer PATH``, during the block or after it. ``build=False`` inspects: all
    code is generated, none is built, and compiled functions run eagerly. ``use_caches`` leaves
    torch's compile caches on; what comes out of a cache was not compiled, so there is less to see.

    What is compiled inside the block stays in use after it, also without ``build``. An exception of
    the block's passes through, and the session is complete up to it. Raises SessionWriteError when
    ``path`` cannot be written, FileExistsError when something is there already.

    >>> import torch, tempfile, fx_explorer
    >>> with fx_explorer.record(tempfile.mkdtemp() + "/run.fxs", build=False) as session:
    ...     y = torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    >>> session.name
    'run.fxs'
    """
    path = Path(path)
    program = Path(getattr(sys.modules["__main__"], "__file__", None) or "interactive")
    request = CaptureRequest(str(program), str(path), build=build, use_caches=use_caches)
    started = time.monotonic()
    writer = new_session(path, request)
    try:
        writer.set_meta(
            "target",
            {
                "name": program.name,
                "kind": "script",
                "file": str(program),
                "object": "",
                "train": False,
            },
        )
        outcome, before = Outcome("finished"), in_force()
        try:
            with recording(writer, request, lambda notice: None) as state:
                with state.noting("the options of the compiler"):
                    add_catalogue(writer, before, only=CONSOLE)
                yield path
        except BaseException as error:
            outcome = Outcome("raised", f"{type(error).__name__}: {error}", 1)
            raise
        finally:
            writer.set_meta("outcome", outcome.to_json())
            writer.set_meta("finished", round(time.monotonic() - started, 3))
    finally:
        writer.finish()


def new_session(path: Path, request: CaptureRequest) -> SessionWriter:
    """Return a session that says what is asked for and when. Raises FileExistsError when something
    is there, and SessionWriteError.
    """
    try:
        os.close(
            os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        )  # follows no link, not even a dangling one
    except FileExistsError:
        raise FileExistsError(
            f"{path} is there already; record into a new file, or remove it first"
        ) from None
    except OSError as error:
        raise SessionWriteError(
            f"cannot create the session file {path}: {error.strerror}"
        ) from error
    writer = SessionWriter(path, beside_program=True)
    writer.set_meta("fx_explorer", __version__)
    writer.set_meta("request", asdict(request))
    writer.set_meta("started", datetime.now(timezone.utc).isoformat(timespec="seconds"))
    writer.set_meta("build", request.build)
    return writer
