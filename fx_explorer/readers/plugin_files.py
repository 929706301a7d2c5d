"""This module makes sessions of files that a plug-in reads (``plugins.FileReader``)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fx_explorer.errors import SessionError
from fx_explorer.model import Outcome
from fx_explorer.outside_file import open_outside
from fx_explorer.plugin_loading import Plugin, PluginFault, attempt, plugins_of
from fx_explorer.plugins import FileReader
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.untrusted.kind_of_file import BEGINNING


def reader_of_plugin(file: Path) -> Plugin[FileReader] | None:
    """Return the plug-in that reads a file; None if no plug-in knows it. Raises OSError."""
    plugins = plugins_of("readers", FileReader)
    if not plugins:
        return None
    with open_outside(file) as opened:
        beginning = opened.read(BEGINNING)
    for plugin in plugins:
        recognizes = partial(plugin.offer.recognizes, file, beginning)
        if attempt(plugin.installed, recognizes) is True:
            return plugin
    return None


def read_by_plugin(plugin: Plugin[FileReader], file: Path, session: Path) -> bool:
    """Write what a plug-in reads of a file to ``session``. Returns False if the plug-in fails,
    which is told. Raises SessionError for a file that it says is damaged.
    """
    answer = attempt(plugin.installed, partial(_read, plugin, file, session))
    if isinstance(answer, SessionError):
        raise SessionError(f"{file} cannot be read: {answer}")
    return not isinstance(answer, PluginFault)


def _read(plugin: Plugin[FileReader], file: Path, session: Path) -> SessionError | None:
    """Write the session, and open it once. Returns what the plug-in says of a damaged file."""
    log = {"format": "plugin", "words": plugin.offer.words, "plugin": plugin.installed.title}
    with SessionWriter(session, checks_rows=True) as writer:
        write_beginning(writer, file)
        writer.set_meta("log", log)
        try:
            plugin.offer.read(file, writer)
        except SessionError as error:
            return error
        writer.set_meta("build", True)  # nothing of it can be captured or built here
        writer.set_meta("outcome", Outcome("finished").to_json())
    SessionReader(session).close()
    return None
