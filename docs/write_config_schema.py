"""Writes docs/reference/config-schema.json and docs/reference/check-schema.json: the JSON Schemas
of the configuration file and of [tool.fx-explorer.check] in pyproject.toml, for editors that check
TOML as it is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fx_explorer.client.history_settings import HistorySettings
from fx_explorer.command_line.check_table import entry_options
from fx_explorer.command_line.judging import ALLOWED
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
        "plugins": {
            "type": "object",
            "description": "Which plug-ins of installed packages are used.",
            "properties": {
                "use": {
                    "type": "boolean",
                    "default": True,
                    "description": "Whether plug-ins are used; fx-explorer --no-plugins leaves "
                    "them out once.",
                },
                "left_out": {
                    "type": "array",
                    "items": {"type": "string"},
                    "default": [],
                    "description": "Packages whose plug-ins are not used.",
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


CHECK_FILE = FILE.with_name("check-schema.json")


def check_schema() -> dict[str, object]:
    options = {
        name: {**_type_of(action), "description": str(action.help)}
        for name, action in entry_options().items()
    }
    options["allow"] = {
        "type": "array",
        "items": {"enum": list(ALLOWED)},
        "description": "What every check requires, and this one does not.",
    }
    target = {"type": "string", "minLength": 1, "description": "A target, or a session."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "[tool.fx-explorer.check] of pyproject.toml",
        "description": "The targets that fx-explorer check without a target checks. Options that "
        "stand beside them hold for every target that does not say otherwise.",
        "type": "object",
        "properties": options,
        "additionalProperties": {
            "type": "object",
            "properties": {"target": target, **options},
            "required": ["target"],
            "additionalProperties": False,
        },
    }


def _type_of(action: argparse.Action) -> dict[str, object]:
    """Return the type of an option's value, as command_line/check_table.py reads it."""
    if isinstance(action, argparse.BooleanOptionalAction) or action.nargs == 0:
        return {"type": "boolean"}
    value: dict[str, object] = {"type": ["string", "number"]}
    if action.nargs == 2:
        pair = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair}
    if isinstance(action.default, list):
        return {"anyOf": [value, {"type": "array", "items": value}]}
    return value


def main(file: Path, check_file: Path) -> None:
    for path, content in ((file, schema()), (check_file, check_schema())):
        text = json.dumps(content, indent=1, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:3]]
    main(*(files or (FILE, CHECK_FILE)))
