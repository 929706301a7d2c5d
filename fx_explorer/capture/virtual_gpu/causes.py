"""The causes of an error: torch wraps what its compilers raise."""

from __future__ import annotations

from collections.abc import Iterator


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__
