"""This module has the session as an object of a notebook: its path, which shows the overview where
it is the value of a cell, and the whole page where that is asked for.

What shows a session is imported when it is shown: ``record`` runs in interpreters that have torch
and none of our dependencies.
"""

from __future__ import annotations

import atexit
import shutil
from html import escape
from pathlib import PosixPath

from fx_explorer.errors import FxExplorerError
from fx_explorer.folders import new_temporary_folder
from fx_explorer.session import SessionReader

PAGE_HEIGHT = 700
"""Height of a page in a notebook, in pixels."""


class SessionFile(PosixPath):
    """The path of a session. As the value of a notebook's cell it shows the overview: the findings
    first, each with what to do, then what is known of the run.

    The page with the linked view is not shown by itself, because a notebook would keep a megabyte
    or more of it in each output: ``session.page()`` shows it.

    >>> from fx_explorer import SessionFile
    >>> SessionFile("run.fxs").suffix
    '.fxs'
    """

    def overview(self) -> str:
        """Return the overview as text. Raises SessionError where the session cannot be read."""
        from fx_explorer.report.overview_text import overview_text

        with SessionReader(self) as reader:
            return overview_text(reader)

    def page(self, height: int = PAGE_HEIGHT) -> InlinePage:
        """Return the page of the session, to be the value of a cell; ``height`` is in pixels.
        Raises SessionError where the session cannot be read.
        """
        from fx_explorer.client.session_files import session_content
        from fx_explorer.report.page.page import html_page

        with SessionReader(self) as reader:
            return InlinePage(html_page(reader, session_content(self)), height)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the overview as text and as HTML. A path without a session is only a path."""
        from fx_explorer.report.overview_html import overview_bundle

        try:
            with SessionReader(self) as reader:
                return overview_bundle(reader)
        except FxExplorerError as error:
            return {"text/plain": f"{self!r}: {error}"}


class InlinePage:
    """The page of a session, in a frame that can reach neither the notebook nor the network."""

    def __init__(self, html: str, height: int = PAGE_HEIGHT) -> None:
        self.html = html
        """The page as it is in the file that ``fx-explorer report --format html`` writes."""
        self.height = height

    def __repr__(self) -> str:
        return f"<page of a session, {len(self.html):,} characters>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        frame = (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            f'title="fx-explorer" style="width: 100%; height: {int(self.height)}px; border: 0">'
            "</iframe>"
        )
        return {"text/plain": repr(self), "text/html": frame}


def temporary_session() -> SessionFile:
    """Return a place for a session that is there until this process ends."""
    folder = new_temporary_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return SessionFile(folder / "session.fxs")
