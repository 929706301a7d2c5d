"""The texts of a log are read where they lie when somebody looks at them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from fx_explorer.outside_file import open_outside
from fx_explorer.readers.torch_trace.records import Record, text_below
from fx_explorer.session.bounds import shortened_text
from fx_explorer.session.elsewhere import TextPlace

CHANGED = (
    "This text is not in {log} any more: the log was changed or removed since it was opened. "
    "Open it again."
)


class ChangedLogError(LookupError):
    """What lies at a place of the log is not what was found there."""


class TextsOfLog:
    """Reads texts of a log that is not packed."""

    def __init__(self, log: Path, opened: BinaryIO | None = None) -> None:
        """``opened`` is the log, which stays open where it is followed: it may lose its name."""
        self._log = log
        self._opened = opened

    def __call__(self, place: TextPlace) -> str:
        """Return the text at a place, or a sentence where it is not there any more."""
        try:
            return self._text(place)
        except ChangedLogError:
            return CHANGED.format(log=self._log)

    def with_text(self, record: Record) -> Record:
        """Return a record whose text was left out with the text. Raises ChangedLogError."""
        return replace(record, payload=self._text(record.place))

    def _text(self, place: TextPlace) -> str:
        try:
            text = text_below(self._read(place))
        except OSError as error:
            raise ChangedLogError(str(error)) from error
        if hashlib.md5(text, usedforsecurity=False).digest() != place.digest:
            raise ChangedLogError
        return shortened_text(text.decode("utf-8", "replace"))

    def _read(self, place: TextPlace) -> bytes:
        if self._opened is not None:
            return os.pread(self._opened.fileno(), place.size, place.offset)
        with open_outside(self._log) as opened:  # each time: several threads may ask
            opened.seek(place.offset)
            return opened.read(place.size)
