"""What an AOTInductor package holds, as facts for the overview of its session."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place, artifact_document
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader

UNTOUCHED = (
    "Nothing of the package was loaded or run: these are the texts in it. Its binaries are listed."
)


def is_package(reader: SessionReader) -> bool:
    """Return whether the session was made of an AOTInductor package, and of no run."""
    return (reader.meta("target") or {}).get("kind") == "package"


def _computed(texts: list[model.Artifact]) -> str:
    """Return where it stands what each kernel computes, or why nowhere."""
    table = next((row.title for row in texts if row.title == "What each kernel computes"), "")
    if table:
        return (
            f"The document {table} has the operations and lines of your program behind each "
            "of them."
        )
    return (
        "Which operations each computes torch notes with "
        "torch._inductor.config.trace.provenance_tracking_level = 1."
    )


def package_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what is in the package, and its code to look at first."""
    models = reader.rows(model.Compilation)
    named = listed([one.name for one in models])
    target = (reader.meta("target") or {}).get("name", "")
    text = (
        f"{target} is a package of AOTInductor with {counted(len(models), 'compiled model')}: "
        f"{named or 'none'}."
    )
    yield Fact("run", "good", text, UNTOUCHED, view="source")
    for one in models:
        texts = [
            row for row in reader.rows(model.Artifact, compilation=one.id) if row.stage != "kernel"
        ]
        if texts:
            document = artifact_document(texts[0], one.name)
            lines = sum(row.line_count for row in texts[:-1])
            said = f"{one.name}: {counted(len(texts) - 1, 'text')}, {counted(lines, 'line')}."
            yield Fact(
                "kernels",
                "good",
                said,
                listed([row.title for row in texts[:-1]], 6),
                Place(document),
            )
            kernels = reader.rows(model.Kernel, compilation=one.id)
            if kernels:
                library = sum(row.language == "extern" for row in kernels)
                generated = counted(len(kernels) - library, "generated kernel")
                told = f"It calls {generated} and {counted(library, 'library function')}."
                yield Fact("kernels", "good", told, _computed(texts), view="kernels")
            yield Fact(
                "next",
                "good",
                f"See {document.title}, the code that calls the kernels.",
                "",
                Place(document),
            )
