"""This module runs slow computations on a session in the background: in a thread, with a reader of
its own.

A table of 100,000 kernels takes seconds. The thread that draws would answer no key meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.failures import notifies_user, survive

if TYPE_CHECKING:
    from textual.widget import Widget
    from textual.worker import Worker


MadeT = TypeVar("MadeT")


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[MadeT]):
    """A result with the reader with which it was computed: the thread no longer uses it, so the
    receiver may, and closes it.
    """

    value: MadeT
    reader: SessionReader


class BackgroundTask(Generic[MadeT]):
    """Computes one thing at a time for a widget. An earlier computation is cancelled, also when the
    widget is removed.
    """

    def __init__(self, widget: Widget, name: str, description: str) -> None:
        """``description`` completes the sentence "fx-explorer failed to …"."""
        self._widget = widget
        self._name = name
        self._description = description
        self._worker: Worker[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self._worker is not None and not self._worker.is_finished

    def begin(
        self,
        session: Path,
        make: Callable[[SessionReader], MadeT],
        done: Callable[[TaskResult[MadeT]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Call ``make`` in a thread, then ``done`` in this one; ``failed`` if either raises, after
        the user has been told.
        """
        self.stop()
        work = functools.partial(self._work, session, make, done, failed)
        self._worker = self._widget.run_worker(
            work, name=self._name, group=self._name, description=self._description
        )

    def stop(self) -> bool:
        """Stop the task. Returns whether it was running."""
        was_busy, worker, self._worker = self.is_busy, self._worker, None
        if worker is not None and was_busy:
            worker.cancel()
        return was_busy

    async def _work(
        self,
        session: Path,
        make: Callable[[SessionReader], MadeT],
        done: Callable[[TaskResult[MadeT]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        try:
            made = await make_in_thread(session, make)
            self._worker = None
            done(made)
        except Exception as error:  # noqa: BLE001 - told: one view that fails must not end the app
            self._worker = None
            self._tell(error)
            failed(error)

    def _tell(self, error: Exception) -> None:
        if notifies_user(self._widget, error):
            return
        if isinstance(error, FxExplorerError):
            self._widget.notify(
                printable(str(error)), title="the session cannot be read", severity="error"
            )
        else:
            survive(self._widget.app, error, self._description)


class Renewed(Generic[MadeT]):
    """Keeps a widget's data of a session up to date: computed before the next frame if that is
    quick, else in the background.
    """

    def __init__(
        self,
        beside: BackgroundTask[MadeT],
        show: Callable[[MadeT], None],
        failed: Callable[[], None],
    ) -> None:
        """``failed`` shows that there is no data; the user has been told why."""
        self._beside = beside
        self._show = show
        self._failed = failed
        self._made_of: tuple[SessionReader, int, object] | None = None
        self._again: Callable[[], object] | None = None
        """Repeats the last request, which may have come during a computation."""
        self._has_shown = False

    def renew(
        self,
        reader: SessionReader,
        make: Callable[[SessionReader], MadeT],
        *,
        takes_long: bool,
        given: object = None,
    ) -> bool:
        """Show the result of ``make`` for the session's present state. ``given`` are other inputs
        of the result. Returns whether something is shown, which may be an earlier result.
        """
        if not takes_long:
            self.forget()
            self._done(make(reader))
            return True
        self._again = functools.partial(self.renew, reader, make, takes_long=True, given=given)
        made_of = (reader, reader.data_version(), given)
        if not self._beside.is_busy and made_of != self._made_of:
            self._made_of = made_of
            self._beside.begin(reader.path, make, self._take, lambda _: self._failed())
        return self._has_shown

    def _take(self, made: TaskResult[MadeT]) -> None:
        made.reader.close()
        self._done(made.value)
        if self._again:
            self._again()  # the session may have grown meanwhile

    def _done(self, value: MadeT) -> None:
        self._has_shown = True
        self._show(value)

    def forget(self) -> None:
        """Cancel the computation for a session that is about to be closed."""
        self._beside.stop()
        self._made_of = self._again = None
        self._has_shown = False


async def read_in_thread(session: Path, make: Callable[[SessionReader], MadeT]) -> MadeT:
    """Return the result of ``make`` on a session in a thread, if the result does not need the
    session.
    """
    made = await make_in_thread(session, make)
    made.reader.close()
    return made.value


async def make_in_thread(
    session: Path, make: Callable[[SessionReader], MadeT]
) -> TaskResult[MadeT]:
    """Return the result of ``make`` on a session in a thread. Cancelling the wait cancels it: the
    thread ends at its next query.
    """
    making = _Making(session, make)
    making.start()
    try:
        return await making.result
    except asyncio.CancelledError:
        making.abandon()
        raise


class _Making(threading.Thread, Generic[MadeT]):
    """The background thread. It is a daemon, so that quitting the app does not wait for it."""

    def __init__(self, session: Path, make: Callable[[SessionReader], MadeT]) -> None:
        super().__init__(name="fx-explorer beside the screen", daemon=True)
        self._session = session
        self._make = make
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[TaskResult[MadeT]] = self._loop.create_future()
        self._lock = threading.Lock()
        """Lock that is held while the reader is handed over: a closed one cannot be interrupted."""
        self._reader: SessionReader | None = None
        self._is_abandoned = False

    def run(self) -> None:
        try:
            made = self._run_with_reader()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self._answer(functools.partial(self._fail, error))
            return
        if not self._answer(functools.partial(self._deliver, made)):
            made.reader.close()

    def _run_with_reader(self) -> TaskResult[MadeT]:
        reader = SessionReader(self._session)
        try:
            with self._lock:
                if self._is_abandoned:
                    reader.abandon()
                self._reader = reader
            with no_collection():
                value = self._make(reader)
        except BaseException:
            with self._lock:
                self._reader = None
                reader.close()
            raise
        return TaskResult(value, reader)

    def _answer(self, answer: Callable[[], None]) -> bool:
        """Return whether the result is still wanted."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended: so has the app
            self._loop.call_soon_threadsafe(answer)
            return True
        return False

    def _deliver(self, made: TaskResult[MadeT]) -> None:
        with self._lock:
            if self._is_abandoned or self.result.done():
                self._reader = None
                made.reader.close()
            else:
                self.result.set_result(made)

    def _fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)

    def abandon(self) -> None:
        """End the thread, and close a result that it has delivered already."""
        with self._lock:
            self._is_abandoned = True
            if (
                self.result.done()
                and not self.result.cancelled()
                and self.result.exception() is None
            ):
                self.result.result().reader.close()
            elif self._reader is not None:
                self._reader.abandon()


# No garbage is collected while something large is made in a thread: the collector would walk
# through all of it, again and again, and each time no thread does anything for up to 130 ms.

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Switch off garbage collection inside the block. Objects that exist at its end are never
    examined again: they are freed by their reference count, and circles stay until the app ends.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1


def _end() -> None:
    global _pauses
    with _lock:
        _pauses -= 1
        gc.freeze()
        if not _pauses and _was_on:
            gc.enable()
