"""Writes docs/reference/config-schema.json: the JSON Schema of the configuration file, for editors
that check TOML as it is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fx_explorer.client.history_settings import HistorySettings
from fx_explorer.tui.commands import COMMANDS, keys_of
from fx_explorer.tui.config import AFTER_FIX, SETTINGS, THEMES

FILE = Path(__file__).parent / "reference" / "config-schema.json"

HISTORY = HistorySettings()

KEY = {"type": "string", "minLength": 1}


def schema() -> dict[str, object]:
    settings: dict[str, object] = {
        "theme": {
            "enum": list(THEMES),
            "default": "auto",
            "description": "auto asks the terminal for its background.",
        },
        "after_fix": {
            "enum": [*AFTER_FIX],
            "default": "ask",
            "description": "What happens when a fix was written to your file: ask whether to "
            "capture again, capture again, or nothing.",
        },
        "mark_kernels": {
            "type": "boolean",
            "default": True,
            "description": "Whether lines have the numbers, colours and shares of their kernels "
            "when the app opens; the key p h shows and hides them.",
        },
        "history": {
            "type": "object",
            "description": "Captures are kept by themselves, and found again with fx-explorer "
            "history.",
            "properties": {
                "keep": {
                    "type": "boolean",
                    "default": HISTORY.keep,
                    "description": "Whether captures are kept. If not, quitting the app asks about "
                    "a capture that is not saved.",
                },
                "sessions": {
                    "type": "integer",
                    "minimum": 1,
                    "default": HISTORY.sessions,
                    "description": "Maximum number of captures of a project; the oldest go first.",
                },
                "megabytes": {
                    "type": "integer",
                    "minimum": 1,
                    "default": HISTORY.megabytes,
                    "description": "Maximum size of all captures together; the oldest go first.",
                },
            },
            "additionalProperties": False,
        },
        "keys": {
            "type": "object",
            "description": "Id of a command → its key, or its keys. A key may be a sequence: z z.",
            "properties": {
                command.id: {
                    "$ref": "#/$defs/keys",
                    "description": command.help,
                    "default": list(keys_of(command, {})),
                }
                for command in COMMANDS
            },
            "additionalProperties": False,
        },
    }
    assert list(settings) == list(SETTINGS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration file of fx-explorer",
        "description": "$XDG_CONFIG_HOME/fx-explorer/config.toml, by default "
        "~/.config/fx-explorer/config.toml",
        "type": "object",
        "properties": settings,
        "additionalProperties": False,
        "$defs": {"keys": {"anyOf": [KEY, {"type": "array", "items": KEY, "minItems": 1}]}},
    }


def main(file: Path) -> None:
    file.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
