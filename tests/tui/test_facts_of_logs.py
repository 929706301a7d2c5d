"""These tests check that the first view shows every possible fact, those of logs included, whatever
it is about.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from fx_explorer.analysis.facts import Topic
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.overview_pane import NO_FACT, TOPIC_CELLS, TOPIC_LABELS, PageLayout
from tests.ranks.logs_of_ranks import DATA


def test_every_topic_has_a_label_that_fits() -> None:
    assert set(TOPIC_LABELS) == set(get_args(Topic))
    assert all(len(label) < TOPIC_CELLS for label in TOPIC_LABELS.values())


@pytest.mark.parametrize("log", ["caches/base.log.gz", "caches/warm.log.gz", "ddp_buckets.log.gz"])
def test_the_facts_of_a_log_with_records_of_caches_are_shown(log: str, tmp_path: Path) -> None:
    read_log(DATA / log, tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        facts = overview(reader)
    assert "caches" in {fact.topic for fact in facts}
    shown = set()
    for at in range(len(facts)):
        shown |= {line.fact for line in PageLayout(100, "x x", "x r", at).lines(facts)}
    assert shown - {NO_FACT} == set(range(len(facts)))
