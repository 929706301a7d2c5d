"""This module writes files that the user asked for. No file of the user's is lost by it: only a
free name is taken, or a file of ours.

The content is written beside the place, under a name nobody can guess, and put there whole and at
once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError


@dataclass(frozen=True, slots=True)
class OutputFile:
    """An OutputFile is a path to write to, and the rule for which file may be replaced there."""

    path: Path
    what: str
    """The kind of file in one word: ``session``, ``report``."""
    is_ours: Callable[[Path], bool]
    """Returns whether a file is one of this kind that we have made."""
    force: bool = False
    """Whether a file that we did not make may be replaced."""
    never: tuple[Path, ...] = ()
    """Files that are not replaced even with ``force``: the target, and the sources of its run."""
    option: str = "-o FILE"
    """The option by which the user can choose another place."""

    def check(self) -> None:
        """Raise UsageError when the file cannot be written, or would replace something of the
        user's.
        """
        status = self._status()
        if status is None or stat.S_ISREG(status.st_mode):
            self._check_replacing(status)
            self._check_folder()
        elif self._is_stream(status):
            return
        else:
            raise UsageError(
                f"{self.path} is {kind_of(status.st_mode)}, and cannot hold a "
                f"{self.what}; {self._elsewhere()}"
            )

    def write_text(self, text: str, errors: str = "strict") -> None:
        """Write the whole text or nothing. Into a terminal, a FIFO or another stream it is written
        directly.

        Raises UsageError as ``check`` does, and when the place does not take it (no room, nobody
        reads).
        """
        self.check()
        content = text.encode("utf-8", errors)
        try:
            status = self._status()
            if status is not None and self._is_stream(status):
                _send(self.path, content)
                return
            with self.partial() as beside:
                beside.write_bytes(content)
        except OSError as error:
            raise self._cannot(error) from error

    @contextlib.contextmanager
    def partial(self) -> Iterator[Path]:
        """Give the block an empty file beside the path. It is moved to the path when the block ends
        well, and removed otherwise. Raises UsageError as ``check`` does, and OSError when it cannot
        be moved.
        """
        before = self._status()
        self._check_replacing(before)
        place = self.path.resolve()
        mode = self._mode_of_new() if before is None else stat.S_IMODE(before.st_mode)
        beside = _new_file_in(place.parent, mode, is_new=before is None)
        try:
            yield beside
            self.put(beside)
        finally:
            beside.unlink(missing_ok=True)

    def put(self, file: Path) -> None:
        """Move a complete file from the same file system to the path. Whether the file there may be
        replaced is checked again first.
        """
        there = self._status()
        self._check_replacing(there)
        place = self.path.resolve()
        if there is not None:
            os.replace(file, place)
            return
        try:
            os.link(file, place)  # unlike a rename, never over something that appeared meanwhile
        except FileExistsError:
            raise self._is_there() from None
        except OSError:  # a file system without hard links
            if os.path.lexists(place):
                raise self._is_there() from None
            os.replace(file, place)
        else:
            file.unlink()

    # what is in the way

    def _status(self) -> os.stat_result | None:
        """Return the status of the file, through links; None when it does not exist."""
        try:
            return os.stat(self.path)
        except FileNotFoundError:
            if self.path.is_symlink():
                raise UsageError(
                    f"{self.path} is a link to {os.readlink(self.path)}, which does not exist; "
                    f"{self._elsewhere()}"
                ) from None
            return None
        except (OSError, ValueError) as error:
            raise self._cannot(error) from error

    def _mode_of_new(self) -> int:
        """Return the mode of a new file. A session holds the user's source and output and is
        private; a report is made to be shared, and follows the umask.
        """
        return 0o600 if self.what == "session" else 0o666

    def _is_stream(self, status: os.stat_result) -> bool:
        """Return whether the file is a stream: a session is a file, but a text may go to a terminal
        or to another program.
        """
        return self.what != "session" and (
            stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode)
        )

    def _check_replacing(self, status: os.stat_result | None) -> None:
        if status is None:
            return
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(
                f"{self.path} is {kind_of(status.st_mode)}, and cannot hold a "
                f"{self.what}; {self._elsewhere()}"
            )
        for file in self.never:
            with contextlib.suppress(OSError, ValueError):
                if os.path.samestat(os.stat(file), status):
                    raise UsageError(
                        (
                            f"{self.path} is {_same(self.path, file)} that this run reads, so it "
                            "is not overwritten; "
                        )
                        + self._elsewhere()
                    )
        if status.st_size and not self.force and not self.is_ours(self.path):
            raise self._is_there()

    def _check_folder(self) -> None:
        folder = self.path.resolve().parent
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
            if len(os.fsencode(self.path.name)) > os.pathconf(folder, "PC_NAME_MAX"):
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        except OSError as error:
            raise UsageError(
                f"cannot write the {self.what} to {self.path}: {error.strerror} "
                f"({folder}); {self._elsewhere()}"
            ) from error

    def _is_there(self) -> UsageError:
        article = "an" if self.what[0] in "aeiou" else "a"
        return UsageError(
            f"{self.path} already exists and is not {article} {self.what} of fx-explorer, so it "
            f"is not overwritten; {self._elsewhere()}, or replace it with --force"
        )

    def _cannot(self, error: Exception) -> UsageError:
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        else:
            reason = str(error)
        return UsageError(
            f"cannot write the {self.what} to {self.path}: {reason}; {self._elsewhere()}"
        )

    def _elsewhere(self) -> str:
        return f"choose another place with {self.option}"


def never_ours(file: Path) -> bool:
    """Return False for every file: used for output that only ever takes a free name."""
    return False


def _same(path: Path, file: Path) -> str:
    same_name = os.path.abspath(path) == os.path.abspath(file)
    if same_name:
        return "a file"
    return f"the same file as {file}"


def kind_of(mode: int) -> str:
    """Return what kind of file a path is that is not a regular file: ``a FIFO``."""
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((words for test, words in kinds if test(mode)), "no file")


def _new_file_in(folder: Path, mode: int, *, is_new: bool) -> Path:
    """Return an empty file with a random name, so that no link placed there beforehand is
    followed.
    """
    path = folder / f".fx-explorer-{secrets.token_hex(8)}.partial"
    mode_at_first = mode if is_new else 0o600
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR, mode_at_first)
    try:
        # As the file that it replaces has it; a new one has what the umask leaves.
        if not is_new:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
    return path


def _send(stream: Path, content: bytes) -> None:
    descriptor = os.open(
        stream, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
    )  # a FIFO that nobody reads would block for ever
    try:
        os.set_blocking(descriptor, True)
        while content:
            content = content[os.write(descriptor, content) :]
    finally:
        os.close(descriptor)
