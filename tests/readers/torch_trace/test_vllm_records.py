"""These tests check what vLLM adds to a log: which pieces are equal, what each compile of a piece
was for, and what the cache answered.

The log is torch 2.13's own, of a model cut into pieces and compiled by Inductor; vLLM's records in
it have the form of vLLM's source (tests/data/vllm/record.py). Its paths were shortened, and their
hashes made anew.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.whole_session import damage
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader

LOG = Path(__file__).parents[2] / "data" / "vllm" / "pieces.log.gz"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    session = tmp_path_factory.mktemp("vllm") / "s.fxs"
    read_log(LOG, session)
    with SessionReader(session) as opened:
        yield opened


def text_of(reader: SessionReader, title: str) -> str:
    (row,) = [row for row in reader.rows(model.Artifact) if row.title == title]
    return reader.text(row.text)


def test_every_record_is_known(reader: SessionReader) -> None:
    assert damage(reader) == []
    assert reader.meta("log")["unknown"] == {}


def test_configuration_split_graph_and_pieces_are_documents(reader: SessionReader) -> None:
    assert json.loads(text_of(reader, "vLLM's configuration"))["mode"] == "VLLM_COMPILE"
    assert "class submod_6(torch.nn.Module)" in text_of(reader, "vLLM: the graph in pieces")
    pieces = [
        row.title for row in reader.rows(model.Artifact) if row.title.startswith("vLLM: submod_")
    ]
    assert [title.partition(" · ")[0] for title in pieces] == [
        f"vLLM: submod_{i}" for i in (0, 2, 4, 6)
    ]


def test_pieces_that_compute_the_same_are_told(reader: SessionReader) -> None:
    said = text_of(reader, "vLLM's pieces")
    assert (
        "vLLM split the graph into 7 pieces, of which 4 are different. It compiles 4, and runs "
        "the others in eager mode."
    ) in said
    assert "submod_1, submod_3, submod_5: 1 operation, equal" in said
    assert "submod_2, submod_4: 3 operations, equal" in said


def test_what_each_compile_was_for_and_what_the_cache_said(reader: SessionReader) -> None:
    """The first compile of a piece misses, unless it is equal to an earlier one; the second hits."""
    said = re.findall(
        r"^(submod_\d) +tokens (.+?) +[\d.]+ s +(.*)$", text_of(reader, "vLLM's pieces"), re.M
    )
    ranges = ("1 to 8192", "4")
    missed = {("submod_0", "1 to 8192"), ("submod_2", "1 to 8192"), ("submod_6", "1 to 8192")}
    assert said == [
        (piece, tokens, "not in the cache" if (piece, tokens) in missed else "from the cache")
        for piece in ("submod_0", "submod_2", "submod_4", "submod_6")
        for tokens in ranges
    ]


def test_documents_of_a_piece_name_it(reader: SessionReader) -> None:
    codes = [row.title for row in reader.rows(model.Artifact, kind="output_code")]
    assert codes[0] == "output code · submod_0, tokens 1 to 8192"
    assert len(codes) == gzip.decompress(LOG.read_bytes()).count(b'{"inductor_output_code"')
