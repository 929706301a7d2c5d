"""These tests check that the schema of answers is the one that its script writes, and that each
question has a description there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fx_explorer.answers.questions import QUESTIONS
from tests.conftest import ROOT

FILE = ROOT / "docs" / "reference" / "answer-schema.json"


def test_it_is_up_to_date(tmp_path: Path) -> None:
    written = tmp_path / "schema.json"
    subprocess.run(
        [sys.executable, "docs/write_answer_schema.py", str(written)],
        cwd=ROOT,
        timeout=120,
        check=True,
    )
    assert written.read_text() == FILE.read_text()


def test_it_has_each_question() -> None:
    schema = json.loads(FILE.read_text())
    assert {*schema["$defs"]} == {question.name for question in QUESTIONS}
