"""Hearing a logger of torch's whatever the program does to logging."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def steady(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """``handler`` hears ``logger`` in the block, whatever the program's ``logging.config`` does to loggers that exist.

    By default it disables them; one below a configured logger (``torch``) loses its handlers and its level, and starts to
    propagate: then the records that only we asked for would show up in the program's output. What the program sets is in force
    again afterwards.
    """
    settings = vars(logger)

    def handlers(_: logging.Logger) -> list[logging.Handler]:
        if handler not in settings["handlers"]:
            settings["handlers"].append(handler)
        return settings["handlers"]

    def keep(name: str, value: Callable[[logging.Logger], object]) -> property:
        return property(value, lambda _, set_to: settings.__setitem__(name, set_to))

    held = {
        "handlers": keep("handlers", handlers),
        "disabled": keep("disabled", lambda _: False),
        "propagate": keep("propagate", lambda _: False),
        "level": keep("level", lambda _: logging.DEBUG),
    }
    original = type(logger)
    logger.__class__ = type(original.__name__, (original,), held)
    logger.setLevel(settings["level"])  # the same: so that logging forgets which levels it found to be off
    try:
        yield
    finally:
        logger.__class__ = original
        logger.removeHandler(handler)
        logger.setLevel(logger.level)
