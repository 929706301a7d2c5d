"""These tests check that links walked in tables are those that the queries give, for every place of
a session.
"""

from __future__ import annotations

import pytest

from fx_explorer import model
from fx_explorer.analysis import link_tables
from fx_explorer.analysis.documents import Place, documents_of, read_sources
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.link_tables import LinkQueries, LinkTables, links_for_all_places
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.session import SessionReader

STEP = 7
"""Of so many lines of a text one is compared."""


def places(reader: SessionReader) -> list[Place]:
    documents = read_sources(reader)
    for compilation in variants_in_use(reader):
        documents += documents_of(reader, compilation)
    chosen = []
    for document in documents:
        chosen += [Place(document, line) for line in range(0, document.line_count, STEP)]
    return chosen


@pytest.mark.parametrize("sample", ["mlp", "convnet"])
def test_every_place_has_the_same_links(sample: str, captured, reader) -> None:
    session = reader(captured(sample))
    tables = LinkTables(session)
    everything = places(session)
    documents = list(dict.fromkeys(place.document for place in everything))
    linked = 0
    for place in everything:
        asked, read = Selection(session, place), Selection(session, place, tables)
        answer = asked.linked(documents)
        assert read.linked(documents) == answer, place
        # A kernel's text that is not among these has no linked line.
        for document in documents:
            if document.stage == "kernel" and document.id not in read.kernel_texts:
                assert not asked.other_lines_in(document)
        linked += sum(map(len, answer.values()))
    assert linked > len(everything)


def test_of_too_many_links_no_tables_are_made(
    captured, reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = reader(captured("mlp"))
    assert isinstance(links_for_all_places(session), LinkTables)
    monkeypatch.setattr(link_tables, "MOST_LINKS", session.count(model.Link) - 1)
    assert isinstance(links_for_all_places(session), LinkQueries)
