"""This module waits for an app under test until its event loop has nothing left to do, and shares
parsed styles among apps.

Textual's pilot waits until the process has hardly used the processor for a fiftieth of a second,
three times for each key: most of a test was sleep, and on a busy machine a thread that is not
scheduled looked as if it were done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from textual._context import active_app
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.timer import Timer
from textual.worker import Worker

LONGEST_S = 1.0
"""Most seconds to wait for an app, as in Textual's pilot."""

SOON_S = 0.1
"""A timer that fires once, after at most so long, is waited for: a search begins 0.08 s after the
last letter.
"""

LOOK_S = 0.002

TURNS = 2
"""Consecutive turns of the event loop without anything left to do."""

IDLE_S, USED_S = 0.02, 0.001
"""Threads wait for something else where the process has used so little in so long: these are
Textual's figures.
"""


class Threads:
    """Calls that the event loop has given to threads and that have not returned."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Future[Any]] = set()

    def add(self, call: asyncio.Future[Any]) -> None:
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    def are_busy_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        return any(call.get_loop() is loop for call in self._calls)


THREADS = Threads()


async def until_quiet(_min_sleep: float = 0, max_sleep: float = LONGEST_S) -> None:
    """Return when the app of this context has nothing left to do. It replaces Textual's
    ``wait_for_idle``.
    """
    loop, app = asyncio.get_running_loop(), active_app.get(None)
    until_s = loop.time() + max_sleep
    turns = 0
    while turns < TURNS and loop.time() < until_s:
        await asyncio.sleep(0)
        if loop._ready:  # type: ignore[attr-defined]
            turns = 0
        elif THREADS.are_busy_in(loop):
            turns = TURNS if await _use_little() else 0
        elif app is not None and _is_to_paint(app):
            app.screen._on_timer_update()
            turns = 0
        elif _is_due(loop) or (
            app is not None and (any(_timers_soon(app)) or _has_worker_about_to_begin(app, loop))
        ):
            await asyncio.sleep(LOOK_S)
            turns = 0
        else:
            turns += 1


async def _use_little() -> bool:
    """Return whether the threads only wait."""
    used_s = time.process_time()
    until_s = time.monotonic() + IDLE_S
    loop = asyncio.get_running_loop()
    while THREADS.are_busy_in(loop):
        if time.monotonic() > until_s:
            return time.process_time() - used_s < USED_S
        await asyncio.sleep(LOOK_S)
    return False


def _is_to_paint(app: App[Any]) -> bool:
    """Return whether the screen paints when its timer fires the next time."""
    if not app.is_running or not app._screen_stack:
        return False
    return app.screen.is_running and app.screen._update_timer._active.is_set()


def _is_due(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an event is scheduled before the next check."""
    scheduled = loop._scheduled  # type: ignore[attr-defined]
    return bool(scheduled) and scheduled[0].when() < loop.time() + LOOK_S


def _timers_soon(app: App[Any]) -> Iterator[Timer]:
    if not app._screen_stack:
        return
    for pump in (app, *app.screen.walk_children(with_self=True)):
        for timer in list(pump._timers):
            is_once = timer._repeat is not None and timer._interval <= SOON_S
            if is_once and timer._task is not None and not timer._task.done():
                yield timer


SEEN_S: WeakKeyDictionary[Worker[Any], float] = WeakKeyDictionary()
"""Background task of an app → when it was seen first."""


def _has_worker_about_to_begin(app: App[Any], loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a new background task sleeps for a moment before it does something: a
    difference is shown when the cursor has rested for 0.08 s.
    """
    now_s = loop.time()
    soon = {
        id(handle._args[0])
        for handle in loop._scheduled  # type: ignore[attr-defined]
        if handle._args and not handle.cancelled() and handle.when() < now_s + SOON_S
    }
    for worker in app.workers:
        is_new = now_s - SEEN_S.setdefault(worker, now_s) < 2 * SOON_S
        if is_new and worker._task is not None and id(worker._task._fut_waiter) in soon:  # type: ignore[attr-defined]
            return True
    return False


def _is_idle(pump: MessagePump) -> bool:
    """Return whether a widget waits for its next message: its queue is empty, and it does not await
    anything in the middle of one.
    """
    ready = pump._message_queue.ready_event
    return not ready.is_set() and bool(ready._waiters)  # type: ignore[attr-defined]


def wait_by_event_loop(patch: pytest.MonkeyPatch) -> None:
    """Have all pilots wait so."""
    patch.setattr("textual.app.wait_for_idle", until_quiet)
    patch.setattr("textual.pilot.wait_for_idle", until_quiet)
    ask_all_widgets = Pilot._wait_for_screen

    async def wait_for_screen(self: Pilot[Any], *given: Any, **named: Any) -> bool:
        """Ask no widget that it has come to the end of its messages where that is seen: to send one
        to each of thirty widgets, three times a key, was a sixth of a test.
        """
        app = self.app
        has_more_to_do = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        if not has_more_to_do and app._screen_stack:
            pumps = (app, *app.screen.walk_children(with_self=True))
            if all(map(_is_idle, pumps)):
                return True
        return await ask_all_widgets(self, *given, **named)

    patch.setattr(Pilot, "_wait_for_screen", wait_for_screen)
    run = asyncio.BaseEventLoop.run_in_executor

    def run_in_executor(self: Any, *given: Any) -> Any:
        call = run(self, *given)
        THREADS.add(call)
        return call

    patch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_in_executor)


def share_parsed_styles(patch: pytest.MonkeyPatch) -> None:
    """Make all apps share parsed styles: parsing them was a tenth of the start of an app."""
    parse = Stylesheet._parse_rules
    parsed: dict[object, list[RuleSet]] = {}
    known: WeakKeyDictionary[Stylesheet, tuple[dict[str, str], frozenset[tuple[str, str]]]]
    known = WeakKeyDictionary()

    def parse_once(self: Stylesheet, *given: Any, **named: Any) -> list[RuleSet]:
        if self not in known or known[self][0] is not self._variables:
            known[self] = (self._variables, frozenset(self._variables.items()))
        key = (given, tuple(named.items()), known[self][1])
        if key not in parsed:
            parsed[key] = parse(self, *given, **named)
        return parsed[key]

    patch.setattr(Stylesheet, "_parse_rules", parse_once)
