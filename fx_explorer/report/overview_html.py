"""This module writes the overview for a notebook: as text, and as HTML with the findings first,
each folded with what to do. All text is escaped.
"""

from __future__ import annotations

import jinja2

from fx_explorer.analysis.documents import Place
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.highlight import printable
from fx_explorer.overview.overview import overview
from fx_explorer.report.heading import answer, target_name, versions
from fx_explorer.report.overview_text import GLYPHS, overview_text
from fx_explorer.session import SessionReader

TEMPLATE = """\
<div style="max-width: 60em; line-height: 1.4">
<p><strong>{{ answer | printable }}</strong><br>
<small>{{ target | printable }} · {{ versions | printable }}</small></p>
{% macro paragraphs(text) %}
{% for line in text.splitlines() %}
<div style="margin-left: 2em">{{ line | printable }}</div>
{% endfor %}
{% endmacro %}
{% for finding in findings %}
<details{{ ' open' if loop.first else '' }}>
<summary>{{ glyphs[finding.severity] }} {{ finding.text | printable }}
{%- if finding.cost %} [{{ finding.cost | printable }}]{% endif %}
{%- if finding.place %} <code>{{ where(finding.place) | printable }}</code>{% endif %}</summary>
{{ paragraphs(finding.detail) }}
</details>
{% endfor %}
<details><summary>What was looked for</summary>{{ paragraphs(looked_for) }}</details>
<details><summary>All that is known of the run</summary>
{% for fact in facts %}
<div>{{ glyphs[fact.severity] }} {{ fact.text | printable }}
{%- if fact.place %} <code>{{ where(fact.place) | printable }}</code>{% endif %}</div>
{{ paragraphs(fact.detail) }}
{% endfor %}
</details>
<p><small>In a terminal: <code>fx-explorer {{ path | printable }}</code></small></p>
</div>
"""


def overview_bundle(reader: SessionReader) -> dict[str, str]:
    """Return the overview by MIME type, as IPython asks for it."""
    with reader.snapshot():
        every_finding, facts = findings(reader), overview(reader)
        html = _template().render(
            answer=answer(every_finding, facts),
            target=target_name(reader),
            versions=versions(reader),
            findings=every_finding,
            facts=[fact for fact in facts if fact.topic != "next"],
            looked_for=search(reader).description,
            glyphs=GLYPHS,
            path=str(reader.path),
            where=_where,
        )
        return {"text/plain": overview_text(reader), "text/html": html}


def _where(place: Place) -> str:
    return f"{place.document.title}:{place.line + 1}"


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters["printable"] = printable
    return environment.from_string(TEMPLATE)
