"""This cache keeps texts that were read a moment ago, as many as fit into a bound of characters:
some are 100 bytes, some 40 MB.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST_CHARACTERS = 32 << 20


class RecentTexts:
    """``read`` is asked for what is not at hand."""

    def __init__(self, read: Callable[[int], str]) -> None:
        self._read = read
        self._texts: OrderedDict[int, str] = OrderedDict()
        self._characters = 0

    def __call__(self, text_id: int) -> str:
        if text_id in self._texts:
            self._texts.move_to_end(text_id)
            return self._texts[text_id]
        text = self._texts[text_id] = self._read(text_id)
        self._characters += len(text)
        while self._characters > MOST_CHARACTERS and len(self._texts) > 1:
            self._characters -= len(self._texts.popitem(last=False)[1])
        return text
