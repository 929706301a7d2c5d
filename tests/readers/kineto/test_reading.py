"""These tests read traces of torch.profiler in pieces, whole or damaged, and check the count of
events passed over.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer.readers.kineto_reading import ProfileError, read_trace
from fx_explorer.readers.kineto_trace import EventStream
from tests.exhaustive import rounds
from tests.profiles import DATA, events, gpu_seconds
from tests.readers.kineto.mutating import mutated, problem, small_trace


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "trace.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def kernel(name: str = "k", start: float = 1.0, **more: object) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "ts": start,
        "dur": 2.0,
        "args": {"correlation": 7, "device": 0},
        **more,
    }


@pytest.mark.parametrize("name", ["broken.json.gz", "broken.bare.json.gz", "gpt2.json.gz"])
def test_every_event_of_a_trace_is_read(name: str) -> None:
    found, trace = events(name), read_trace(DATA / name)
    assert trace.events == len(found)
    assert (trace.skipped, trace.problem) == (0, "")
    assert sum(trace.gpu.durations) * 1e-6 == pytest.approx(gpu_seconds(found), rel=1e-12)
    kept = sum(len(thread.starts) for thread in trace.threads) + len(trace.gpu)
    launches = sum(one.get("cat") in ("cuda_runtime", "cuda_driver") for one in found)
    assert kept + launches + sum(trace.unused.values()) == len(found)
    assert trace.devices == ["NVIDIA H100 80GB HBM3"]


def test_an_operator_lies_within_the_one_that_calls_it() -> None:
    trace = read_trace(DATA / "broken.json.gz")
    found = 0
    for thread in trace.threads:
        for at, parent in enumerate(thread.parents):
            if parent >= 0:
                found += 1
                assert thread.starts[parent] <= thread.starts[at]
                assert thread.ends[at] <= thread.ends[parent] + 1e-3
    assert found > 1000


def test_the_list_alone_is_a_trace_too(tmp_path: Path) -> None:
    assert len(read_trace(written(tmp_path, json.dumps([kernel(), kernel()]))).gpu) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("no JSON at all", "not a profile: it has no traceEvents"),
        ("{}", "not a profile: it has no traceEvents"),
        (b"\x00\xff" * 1000, "not a profile"),
        ('{"traceEvents": []}', "a profile without events"),
        ('{"traceEvents": [', "a profile without events"),
        ("[1, 2, 3]", "a profile without events"),
        (gzip.compress(b"hello", mtime=0), "not a profile"),
        (gzip.compress(b"some", mtime=0)[:12], "not a profile"),
    ],
)
def test_what_is_no_profile_is_said(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        read_trace(written(tmp_path, content))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="cannot read the profile"):
        read_trace(tmp_path / "missing.json")


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_a_trace_that_was_cut_off_keeps_what_comes_before(tmp_path: Path, is_packed: bool) -> None:
    packed = (DATA / "broken.json.gz").read_bytes()
    whole = packed if is_packed else gzip.decompress(packed)
    counts = []
    for part in (0.3, 0.6, 0.9):
        trace = read_trace(written(tmp_path, whole[: int(len(whole) * part)]))
        assert "ends" in trace.problem
        assert trace.skipped <= 1
        counts.append(trace.events)
    assert counts == sorted(set(counts))
    assert counts[-1] < len(events("broken.json.gz"))


def test_garbage_between_events_costs_nothing_but_itself(tmp_path: Path) -> None:
    between = [
        "12",
        '"a text"',
        "{broken",
        "[[[[",
        '{"ph": "X", "cat": "kernel", "name": 3, "ts": 1, "dur": 1}',
        "nul",
    ]
    text = ",\n".join(part for junk in between for part in (json.dumps(kernel()), junk))
    trace = read_trace(written(tmp_path, f'{{"traceEvents": [{text},\n{json.dumps(kernel())}]}}'))
    assert len(trace.gpu) == len(between) + 1
    assert trace.skipped >= len(between)


def test_times_and_numbers_that_cannot_be_are_skipped(tmp_path: Path) -> None:
    odd = [
        kernel(ts="1"),
        kernel(dur=-1.0),
        kernel(dur=float("nan")),
        kernel(ts=1e300),
        kernel(dur=True),
        kernel(name=None),
    ]
    odd_numbers = kernel(args={"correlation": 1 << 80, "device": "x", "stream": -3})
    trace = read_trace(
        written(tmp_path, json.dumps({"traceEvents": [*odd, odd_numbers, kernel(args=[1])]}))
    )
    assert (len(trace.gpu), trace.skipped) == (2, len(odd))
    assert list(trace.gpu.correlation) == [-1, -1]


def test_a_deep_event_is_skipped(tmp_path: Path) -> None:
    deep = '{"ph": "X", "args": ' + "[" * 100_000 + "]" * 100_000 + "}"
    trace = read_trace(
        written(
            tmp_path, f'{{"traceEvents": [{json.dumps(kernel())}, {deep}, {json.dumps(kernel())}]}}'
        )
    )
    assert len(trace.gpu) == 2
    assert trace.skipped == 1


MUTATIONS = rounds(1_000, exhaustive=10_000)
"""``make fuzz-profiles`` reads more."""


def test_no_mutation_of_a_trace_raises_anything_but_a_message(tmp_path: Path) -> None:
    problems = (problem(seed, tmp_path / "trace.json") for seed in range(MUTATIONS))
    assert [wrong for wrong in problems if wrong] == []


def test_most_mutated_traces_have_events_and_all_are_damaged(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    events = []
    for seed in range(200):
        file.write_bytes(mutated(seed))
        assert file.read_bytes() != small_trace()
        with contextlib.suppress(ProfileError):
            events.append(read_trace(file).events)
    assert sum(number > 5 for number in events) > 100


def test_pieces_of_any_length_give_the_same_events() -> None:
    text = json.dumps(
        {
            "deviceProperties": [{"name": "GPU"}],
            "traceEvents": [kernel(f"k{at}") for at in range(50)],
        },
        indent=1,
    )
    for length in (1, 7, 64):
        stream = EventStream(text[at : at + length] for at in range(0, len(text), length))
        assert [one["name"] for one in stream.events()] == [f"k{at}" for at in range(50)]
        assert stream.is_whole
        assert stream.skipped == 0


def test_a_long_trace_is_never_in_memory_as_a_whole() -> None:
    many = 40_000

    def pieces() -> Iterator[str]:
        yield '{"traceEvents": ['
        one = (
            json.dumps(kernel("a kernel with a name", args={"correlation": 7, "more": "x" * 400}))
            + ",\n"
        )
        for _ in range(many // 1000):
            yield one * 1000

    tracemalloc.start()
    try:
        count = sum(1 for _ in EventStream(pieces()).events())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == many
    assert most < 6 << 20
