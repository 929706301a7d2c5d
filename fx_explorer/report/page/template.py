"""What the pages for the browser share: the templates, in which everything is escaped, and the
policy that allows their own style and script and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from importlib.resources import files

import jinja2

from fx_explorer.analysis.words import counted
from fx_explorer.highlight import printable, printable_text


def template(name: str, **functions: Callable[..., object]) -> jinja2.Template:
    """Return a template of this folder, with further functions that it calls."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fx_explorer.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["printable_text"] = printable_text
    environment.globals["counted"] = counted
    environment.globals.update(functions)
    return environment.get_template(name)


def resource(name: str) -> str:
    """Return the text of a file of this folder."""
    return (files("fx_explorer.report.page") / name).read_text(encoding="utf-8")


def policy(style: str, script: str = "") -> str:
    """Return the Content-Security-Policy: this style and this script, and no request."""
    scripts = f"script-src {_hash(script)}; " if script else ""
    return (
        f"default-src 'none'; style-src {_hash(style)}; {scripts}"
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
