"""What an AOTInductor package holds, as facts for the overview of its session."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place, artifact_document
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader

UNTOUCHED = "Nothing of the package was loaded or run: these are the texts in it. Its binaries are listed."


def is_package(reader: SessionReader) -> bool:
    """Return whether the session was made of an AOTInductor package, and of no run."""
    return (reader.meta("target") or {}).get("kind") == "package"


def package_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what is in the package, and its code to look at first."""
    models = reader.rows(model.Compilation)
    named = listed([one.name for one in models])
    target = (reader.meta("target") or {}).get("name", "")
    text = f"{target} is a package of AOTInductor with {counted(len(models), 'compiled model')}: {named or 'none'}."
    yield Fact("run", "good", text, UNTOUCHED, view="source")
    for one in models:
        texts = reader.rows(model.Artifact, compilation=one.id)
        if texts:
            document = artifact_document(texts[0], one.name)
            lines = sum(row.line_count for row in texts[:-1])
            said = f"{one.name}: {counted(len(texts) - 1, 'text')}, {counted(lines, 'line')}."
            yield Fact("kernels", "good", said, listed([row.title for row in texts[:-1]], 6), Place(document))
            yield Fact("next", "good", f"See {document.title}, the code that calls the kernels.", "", Place(document))
