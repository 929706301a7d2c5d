"""Keys as people write them."""

from __future__ import annotations

_KEY_NAMES = {
    "slash": "/",
    "full_stop": ".",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "question_mark": "?",
    "equals_sign": "=",
    "ampersand": "&",
    "asterisk": "*",
    "plus": "+",
    "percent_sign": "%",
    "at": "@",
    "vertical_line": "|",
    "comma": ",",
    "semicolon": ";",
    "backslash": "\\",
    "enter": "⏎",
    "escape": "esc",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_label(key: str) -> str:
    """Return a key, or a sequence of keys, as people write it: ``ctrl+p``, ``/``, ``v b``."""
    return " ".join(map(_one_label, key.split()))


def _one_label(key: str) -> str:
    *modifiers, name = key.split("+")
    return "+".join((*modifiers, _KEY_NAMES.get(name, name)))
