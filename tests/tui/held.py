"""This helper blocks a function while a test looks at the screen."""

from __future__ import annotations

import threading

LONG_S = 60


class Held:
    """A function that a test lets go on, and the threads that called it."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.threads: list[int] = []

    def wait(self) -> None:
        self.threads.append(threading.get_ident())
        assert self.go_on.wait(LONG_S)
