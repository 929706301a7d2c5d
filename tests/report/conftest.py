"""These fixtures have the published schema, and reports as the command prints them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "reference" / "report-schema.json"

Report = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="session")
def schema() -> dict[str, Any]:
    return dict(json.loads(SCHEMA_FILE.read_text()))


@pytest.fixture(scope="session")
def report(schema: dict[str, Any]) -> Report:
    """``report(session)`` → its report, after a round through JSON, checked against the published
    schema.
    """

    def make(path: Path) -> dict[str, Any]:
        with SessionReader(path) as reader:
            made = dict(json.loads(json.dumps(json_report(reader))))
        jsonschema.validate(made, schema)
        return made

    return make
