"""This module shows results of ``Precompile`` in a notebook. It needs the standard library alone,
as everything that runs beside the user's program.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def notebook_bundle(text: str, title: str, shown: Mapping[str, str]) -> dict[str, str]:
    """Return ``text``, and as HTML a title with texts that open below it, by MIME type."""
    parts = [f"<p><strong>{escape(title)}</strong></p>"]
    for heading, content in shown.items():
        parts.append(
            f"<details><summary>{escape(heading)}</summary><pre>{escape(content)}</pre></details>"
        )
    return {"text/plain": text, "text/html": "\n".join(parts)}
