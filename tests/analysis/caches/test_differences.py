"""These tests check why a cache missed: five runs of one program in torch 2.13, all with one cache,
that differ in one thing each.

``base`` compiles ``relu(x @ w)``; ``warm`` is the same again; ``option`` sets ``max_fusion_size``
to 32; ``shape`` has other sizes; ``line`` computes ``relu(x @ w + 1)`` in line 8. Recorded with
TORCH_TRACE; paths are shortened, and hashes made anew.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.instruments.compile_time.cache_report import difference_sentences
from fx_explorer.instruments.compile_time.caches import (
    KeyPair,
    cache_answers,
    describe_bypass,
    key_pairs,
    warm_start,
)
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader

LOGS = Path(__file__).parents[2] / "data" / "caches"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SessionReader]]:
    folder = tmp_path_factory.mktemp("caches")
    found = {}
    for log in LOGS.glob("*.log.gz"):
        name = log.name.partition(".")[0]
        read_log(log, folder / f"{name}.fxs")
        found[name] = SessionReader(folder / f"{name}.fxs")
    yield found
    for reader in found.values():
        reader.close()


def of_graphs(left: SessionReader, right: SessionReader) -> KeyPair:
    (pair,) = [pair for pair in key_pairs(left, right) if pair.cache == "fx_graph"]
    return pair


def test_a_changed_setting_is_the_first_difference(runs: dict[str, SessionReader]) -> None:
    pair = of_graphs(runs["base"], runs["option"])
    assert [one.name for one in pair.components] == ["inductor_config[max_fusion_size]"]
    assert pair.first is not None
    assert (pair.first.text, pair.first.left, pair.first.right) == (
        "torch._inductor.config.max_fusion_size",
        "64",
        "32",
    )


def test_a_changed_size_is_the_first_difference(runs: dict[str, SessionReader]) -> None:
    pair = of_graphs(runs["base"], runs["shape"])
    assert {one.name.partition("[")[0] for one in pair.components} == {"example_inputs"}
    assert pair.first is not None
    assert pair.first.text == "the shape of input 0 of the graph"
    assert pair.first.left.startswith("shape [4, 8]")
    assert pair.first.right.startswith("shape [4, 16]")


def test_a_changed_line_is_the_first_difference_and_is_named(
    runs: dict[str, SessionReader],
) -> None:
    pair = of_graphs(runs["base"], runs["line"])
    assert [one.name for one in pair.components] == ["gm"]
    assert pair.first is not None
    assert pair.first.text == "the graph"
    assert (pair.first.left_place, pair.first.right_place) == ("program.py:8", "program.py:8")
    assert "aten.relu" in pair.first.left
    assert "aten.add" in pair.first.right


def test_the_same_run_again_has_the_same_keys(runs: dict[str, SessionReader]) -> None:
    pairs = key_pairs(runs["base"], runs["warm"])
    assert {(pair.cache, pair.is_same_key, pair.components) for pair in pairs} == {
        ("aotautograd", True, ()),
        ("fx_graph", True, ()),
    }
    outcomes = [(pair.left.record.outcome, pair.right.record.outcome) for pair in pairs]
    assert outcomes == [("miss", "hit")] * 2


def test_a_cache_that_lost_an_entry_is_told(runs: dict[str, SessionReader]) -> None:
    said = list(difference_sentences(runs["warm"], runs["base"], ("A", "B")))
    assert (
        "[0/0] Inductor's FX graph cache: the key is the same, but B did not find it: it used "
        "another cache, or the cache was emptied"
    ) in said


def test_a_warm_start_says_what_was_saved_and_what_was_done_all_the_same(
    runs: dict[str, SessionReader],
) -> None:
    warm = warm_start(runs["warm"], cache_answers(runs["warm"]))
    assert warm is not None
    assert (warm.hits, warm.asked, warm.saved_s) == (1, 1, 37.712)
    assert {"reading the Python code (Dynamo)", "loading from torch's cache"} <= {
        phase for phase, _ in warm.done
    }
    assert "writing code (Inductor)" not in {phase for phase, _ in warm.done}
    assert sum(spent for _, spent in warm.done) <= warm.total_s
    assert warm_start(runs["base"], cache_answers(runs["base"])) is None


def test_the_overview_says_what_the_caches_did(runs: dict[str, SessionReader]) -> None:
    said = {
        name: [fact.text for fact in overview(runs[name]) if fact.topic == "caches"]
        for name in ("base", "warm")
    }
    assert said == {
        "base": ["1 compilation not in torch's caches: compiled again."],
        "warm": [
            (
                "1 of 1 compilation found code in torch's caches, which saved 37.7 s by torch's "
                "estimate."
            )
        ],
    }


def test_diff_names_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    logs = [str(LOGS / f"{name}.log.gz") for name in ("base", "option")]
    assert cli.main(["diff", *logs]) == 0
    said = capsys.readouterr().out
    assert "First in: torch._inductor.config.max_fusion_size" in said
    assert cli.main(["diff", *logs, "--format", "json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["caches"]
    (first,) = [pair["first"] for pair in pairs if pair["first"]]
    assert (first["left"], first["right"]) == ("64", "32")


def test_the_report_has_every_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(LOGS / "warm.log.gz")]) == 0
    told = json.loads(capsys.readouterr().out)["caches"]
    assert {(one["cache"], one["outcome"]) for one in told["answers"]} == {
        ("aotautograd", "hit"),
        ("fx_graph", "hit"),
    }
    assert told["warm_start"]["saved_s"] == 37.712


def edited(folder: Path, change: Callable[[str], str]) -> SessionReader:
    """The session of the base log after a change of its text."""
    log = folder / "edited.log"
    log.write_text(
        change(gzip.decompress((LOGS / "base.log.gz").read_bytes()).decode()), encoding="utf-8"
    )
    read_log(log, folder / "edited.fxs")
    return SessionReader(folder / "edited.fxs")


def test_a_bypass_is_told_with_its_reason(tmp_path: Path) -> None:
    def bypassed(text: str) -> str:
        told = json.dumps(
            {
                "cache_state": "bypass",
                "cache_bypass_reason": "Can't cache HigherOrderOperator: cond",
            }
        )
        about = '"frame_id": 0, "frame_compile_id": 0, "attempt": 0'
        head = f'{{"artifact": {{"name": "fx_graph_cache_bypass", "encoding": "json"}}, {about}}}'
        return (
            f"{text}V1125 10:11:35.000000 952 torch/_inductor/compile_fx.py:1] {head}\n\t{told}\n"
        )

    with edited(tmp_path, bypassed) as reader:
        (answer,) = cache_answers(reader, "bypass")
        assert (answer.record.key, answer.record.reason) == (
            "",
            "Can't cache HigherOrderOperator: cond",
        )
        said = [fact.text for fact in overview(reader) if fact.topic == "caches"]
    assert (
        "Inductor's FX graph cache was not asked: the graph has the operator cond, which contains "
        "graphs."
    ) in said


@pytest.mark.parametrize(
    ("torch_says", "words"),
    [
        (
            "FX graph cache is not enabled",
            "Inductor's FX graph cache is off, and AOTAutograd's cache needs it",
        ),
        ("Can't cache torchbind objects", "the graph contains a TorchScript object"),
        (
            "Unsupported call_function target my.op. \n Function module: my",
            "the graph calls my.op, which torch does not know",
        ),
        ("Something new in 2027", "Something new in 2027"),
        ("", "torch gives no reason"),
    ],
)
def test_reasons_of_bypasses_in_plain_words(torch_says: str, words: str) -> None:
    assert describe_bypass(torch_says).startswith(words)
