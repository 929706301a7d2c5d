"""This module reads files that somebody else may have made: regular files only, up to a size, and
never a FIFO or device that could block.

Whatever is wrong with such a file is an OSError or a ValueError, whose words follow "it cannot be
read:".
"""

from __future__ import annotations

import errno
import importlib
import os
import reprlib
import stat
import sys
from io import BufferedReader
from pathlib import Path
from typing import Any

from fx_explorer.output_file import kind_of

MOST_OF_A_TOML = 64 << 10
"""Largest TOML file that is read, in bytes. The time of Python's parser grows with the square of
the size of a table.
"""

MOST_DOTS = 200
"""Maximum number of dots in one line of TOML: each dot makes a table within the one before."""


def open_outside(path: Path, most_bytes: int | None = None) -> BufferedReader:
    """Open a regular file for reading. Raises OSError, for a FIFO or a device and for a larger file
    too.
    """
    _check(path, os.stat(path), most_bytes)
    # Without O_NONBLOCK, a FIFO that took its place by now would wait for whoever writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check(path, os.fstat(descriptor), most_bytes)
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def _check(path: Path, status: os.stat_result, most_bytes: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"it is {kind_of(status.st_mode)}, not a file", str(path))
    if most_bytes is not None and status.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))


def read_outside(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file. Raises OSError for other files and for a larger one."""
    with open_outside(path, most_bytes) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # files of /proc have no size
        raise _too_large(path, most_bytes)
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """Return the entries of a TOML file. Raises OSError where it cannot be read, and ValueError
    where it is not valid TOML.
    """
    content = read_outside(path, MOST_OF_A_TOML)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not a text in UTF-8: {error}") from error
    if any(line.count(".") > MOST_DOTS for line in text.splitlines()):
        raise ValueError(f"it is not a settings file: a line has more than {MOST_DOTS} dots")
    # Python 3.10 has no tomllib; tomli is the same module under its older name. Imported for those
    # who have a file: 8 ms.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    tomllib = importlib.import_module(name)
    try:
        entries: dict[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is not valid TOML: brackets are nested too deeply") from error
    except ValueError as error:  # of Python's own for a number of thousands of digits
        raise ValueError(f"it is not valid TOML: {shown_message(error)}") from error
    return entries


def shown_value(value: object) -> str:
    """Return a value from such a file as one short line for a message."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a number of type {type(value).__name__}"


def shown_path(path: Path | str) -> str:
    """Return the path for a message: its beginning and its end where it is longer than any file's
    name.
    """
    text = str(path)
    if len(text) <= LONGEST_PATH:
        return text
    return f"{text[:100]}…{text[-100:]}"


def shown_message(error: object) -> str:
    """Return an error's message, shortened to its beginning and its end where it quotes a long part
    of such a file.
    """
    text = str(error)
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[:600]}…{text[-200:]}"


LONGEST_PATH = 512
LONGEST_MESSAGE = 1_000

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80
