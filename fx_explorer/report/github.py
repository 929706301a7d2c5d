"""Workflow commands of GitHub Actions: failures of a check as annotations at the lines of a pull
request.

Format and escapes: docs.github.com, "Workflow commands for GitHub Actions"; actions/toolkit,
``packages/core/src/command.ts``.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.highlight import printable
from fx_explorer.overview.checks import Check, CheckFinding


def annotation_lines(check: Check) -> Iterator[str]:
    """Yield one line for each place of a check that failed. GitHub shows the first ten of a
    step.
    """
    for found in check.findings:
        message = f"{check.measured} ({check.option})" + (f": {found.text}" if found.text else "")
        yield command(
            "error", message, {**_place(found), "title": f"torch.compile: {check.condition}"}
        )


def _place(found: CheckFinding) -> dict[str, str]:
    place = {"file": found.file, "line": str(found.line or "")}
    # An empty ``line=`` would not be read as none.
    return {name: value for name, value in place.items() if value}


def command(name: str, message: str, properties: dict[str, str]) -> str:
    """Return ``::error file=model.py,line=3,title=…::message``, whatever the values hold."""
    told = ",".join(f"{key}={_escaped_property(value)}" for key, value in properties.items())
    return f"::{name}{' ' if told else ''}{told}::{_escaped(printable(message))}"


def _escaped(text: str) -> str:
    # The percent sign first: the others are written with one.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(printable(text)).replace(":", "%3A").replace(",", "%2C")
