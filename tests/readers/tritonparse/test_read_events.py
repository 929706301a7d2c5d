"""These tests read logs of tritonparse's own tests and examples: their content is shown."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.kernel_documents import level_document, lines_of_level
from fx_explorer.analysis.kernel_lines import kernel_file
from fx_explorer.analysis.whole_session import damage
from fx_explorer.instruments.kernels.launched import describe_launches
from fx_explorer.overview.overview import overview
from fx_explorer.readers.tritonparse_log import read_tritonparse
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from tests.exhaustive import rounds

LOGS = Path(__file__).parents[2] / "data" / "tritonparse"

NAMES = ("raw", "inductor_mapped", "autotuned_mapped")


def events_of(name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in gzip.decompress((LOGS / f"{name}.ndjson.gz").read_bytes()).splitlines()
    ]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tritonparse")
    for name in NAMES:
        read_tritonparse(LOGS / f"{name}.ndjson.gz", folder / f"{name}.fxs")
    return {name: folder / f"{name}.fxs" for name in NAMES}


@pytest.fixture(scope="module", params=NAMES)
def log(
    request: pytest.FixtureRequest, sessions: dict[str, Path]
) -> Iterator[tuple[list[dict[str, Any]], SessionReader]]:
    with SessionReader(sessions[request.param]) as reader:
        yield events_of(request.param), reader


@pytest.fixture
def tuned(sessions: dict[str, Path]) -> Iterator[SessionReader]:
    with SessionReader(sessions["autotuned_mapped"]) as reader:
        yield reader


def test_every_event_is_read(log: tuple[list[dict[str, Any]], SessionReader]) -> None:
    events, reader = log
    assert damage(reader) == []
    assert (reader.meta("log") or {})["kinds"] == dict(
        Counter(event["event_type"] for event in events)
    )


def test_every_compiled_configuration_has_its_texts(
    log: tuple[list[dict[str, Any]], SessionReader],
) -> None:
    events, reader = log
    wanted, found = [], []
    for event in events:
        if event["event_type"] == "compilation":
            payload = event["payload"]
            texts = {
                file.rpartition(".")[2]: text for file, text in payload["file_content"].items()
            }
            texts.pop("json")
            metadata = payload["metadata"]
            source = payload["python_source"]["code"]
            wanted.append(
                (metadata["name"], source, texts, metadata["shared"], metadata["num_warps"] * 32)
            )
    for build in reader.rows(model.KernelBuild):
        kernel = reader.get(model.Kernel, build.kernel)
        source = reader.text(reader.get(model.Artifact, kernel.artifact).text)
        texts = {
            level: reader.text(reader.get(model.Artifact, id_).text)
            for level, id_ in build.levels.items()
        }
        found.append((kernel.name, source, texts, build.shared_bytes, build.threads))
    assert found == wanted != []


def test_kernels_of_torch_are_of_its_compilation(sessions: dict[str, Path]) -> None:
    with SessionReader(sessions["raw"]) as reader:
        names = {row.id: row.name for row in reader.rows(model.Compilation)}
        assert [(row.name, names[row.compilation]) for row in reader.rows(model.Kernel)] == [
            ("add_kernel", "Triton"),
            ("triton_poi_fused_add_0", "0/0"),
        ]


def test_lines_are_linked_as_tritonparse_links_them(
    log: tuple[list[dict[str, Any]], SessionReader],
) -> None:
    events, reader = log
    mapped = [event["payload"] for event in events if event["event_type"] == "compilation"]
    compared = 0
    for payload, build in zip(mapped, reader.rows(model.KernelBuild), strict=True):
        source = payload["python_source"]
        for level in ("ttir", "ttgir", "ptx"):
            told = payload.get("source_mappings", {}).get(level, {})
            document = level_document(reader, build, level)  # type: ignore[arg-type]
            assert document is not None
            lines = lines_of_level(
                level, reader.text(reader.get(model.Artifact, document.id).text), kernel_file(build)
            )
            for line, place in told.items():
                if (
                    place["file"] != source["file_path"]
                    or not source["start_line"] <= place["line"] <= source["end_line"]
                ):
                    continue
                own = place["line"] - source["start_line"] + 1
                if int(line) in lines:
                    assert own in lines[int(line)], (level, line)
                    compared += 1
    assert compared > 50 or "source_mappings" not in mapped[0]


def test_launches_are_counted_without_those_of_the_autotuner(tuned: SessionReader) -> None:
    wanted = Counter[str]()
    for event in events_of("autotuned_mapped"):
        if event["event_type"] == "launch" and event.get("autotune_launch_type") != "benchmark":
            wanted[event["compilation_metadata"]["hash"]] += 1
    found = Counter[int]()
    for launch in tuned.rows(model.KernelLaunch):
        found[launch.build] += launch.count
    assert sorted(found.values()) == sorted(wanted.values())
    picked = {row.id for row in tuned.rows(model.KernelBuild) if row.is_picked}
    assert picked == set(found)


def test_a_raw_log_tells_the_autotuners_launches_by_their_stacks(
    tmp_path: Path, tuned: SessionReader
) -> None:
    raw = [
        event
        for event in events_of("autotuned_mapped")
        if event["event_type"] in ("compilation", "launch")
    ]
    for event in raw:
        event.pop("autotune_launch_type", None)
    (tmp_path / "raw.ndjson").write_text("".join(json.dumps(event) + "\n" for event in raw))
    read_tritonparse(tmp_path / "raw.ndjson", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert list(reader.rows(model.KernelLaunch)) == list(tuned.rows(model.KernelLaunch)) != []


def test_what_differs_between_launches_is_told(tuned: SessionReader) -> None:
    (text,) = [
        tuned.text(row.text)
        for row in tuned.rows(model.Artifact)
        if row.title == "Launches · fused_op_kernel"
    ]
    different, same = text.split("The same in all 4 launches:")
    assert "ACTIVATION\n      none  × 2 (launches 1-2)\n      relu  × 2 (launches 3-4)" in different
    assert "BLOCK_SIZE  8" in same
    assert "BLOCK_SIZE" not in different.partition("Different")[2]
    assert "test_complex_kernels.py:185 in fused_op" in text
    (kernel,) = [row for row in tuned.rows(model.Kernel) if row.name == "matmul_kernel"]
    assert "launched 1 time with a grid of 4 blocks (M 32, N 32, K 16" in "\n".join(
        describe_launches(tuned, kernel)
    )


def test_an_autotuners_times_stand_beside_the_configurations(tmp_path: Path) -> None:
    """The event is as ``_autotune_listener`` of tritonparse writes it, of configurations that the
    log has.
    """
    compiled = [
        event for event in events_of("autotuned_mapped") if event["event_type"] == "compilation"
    ]
    config = "BLOCK_SIZE_M: {}, BLOCK_SIZE_N: 16, BLOCK_SIZE_K: 16, GROUP_SIZE_M: 1, num_warps: 1, num_ctas: 1, num_stages: 1, "
    configs = [config.format(size) + "maxnreg: None" for size in (16, 32)]
    event = {
        "event_type": "autotune",
        "kernel_name": "matmul_kernel",
        "best_config": configs[1],
        "configs_timings": {configs[0]: [0.25, 0.2, 0.3], configs[1]: 0.125},
        "duration": 1.5,
    }
    (tmp_path / "x.ndjson").write_text(
        "".join(json.dumps(one) + "\n" for one in (*compiled, event))
    )
    read_tritonparse(tmp_path / "x.ndjson", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        found = {
            str(row.options["BLOCK_SIZE_M"]): row
            for row in reader.rows(model.KernelBuild, kernel=1)[:2]
        }
        assert {size: (row.timing_s, row.is_picked) for size, row in found.items()} == {
            "16": (pytest.approx(0.25e-3), False),
            "32": (pytest.approx(0.125e-3), True),
        }


def test_sass_is_a_level_like_the_others(tmp_path: Path) -> None:
    event = events_of("raw")[0]
    sass = (LOGS / "test_kernel.sass").read_text()
    event["payload"]["file_content"]["add_kernel.sass"] = sass
    event["payload"]["python_source"] |= {
        "file_path": "test_structured_logging.py",
        "start_line": 139,
    }
    (tmp_path / "x.ndjson").write_text(json.dumps(event) + "\n")
    read_tritonparse(tmp_path / "x.ndjson", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        (build,) = reader.rows(model.KernelBuild)
        assert reader.text(reader.get(model.Artifact, build.levels["sass"]).text) == sass
        lines = lines_of_level("sass", sass, kernel_file(build))
        first_load = next(
            number for number, line in enumerate(sass.splitlines(), 1) if "LDC.64 R4" in line
        )
        assert lines[first_load] == (148 - 138,)


@pytest.mark.parametrize("packing", ["plain", "gz", "one gzip member a record", "zst"])
def test_it_is_known_however_it_is_packed(packing: str, tmp_path: Path) -> None:
    data = gzip.decompress((LOGS / "raw.ndjson.gz").read_bytes())
    if packing == "gz":
        data = gzip.compress(data)
    elif packing == "one gzip member a record":  # ``.bin.ndjson``
        data = b"".join(gzip.compress(line) for line in data.splitlines(keepends=True))
    elif packing == "zst":
        zstandard = pytest.importorskip("zstandard")
        data = b"".join(zstandard.compress(line) for line in data.splitlines(keepends=True))
    file = tmp_path / "trace.x"
    file.write_bytes(data)
    assert kind_of_file(file).kind == "tritonparse"
    read_tritonparse(file, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.count(model.KernelBuild) == 2


def test_commands_take_it(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(LOGS / "autotuned_mapped.ndjson.gz")
    assert cli.main(["explore", log]) == 0
    assert "2 Triton kernels compiled, in 5 configurations" in capsys.readouterr().out
    assert cli.main(["kernel", log, "matmul_kernel"]) == 0
    assert "launched 1 time with a grid of 4 blocks" in capsys.readouterr().out


def test_fix_does_not_say_that_there_is_no_break_where_none_would_be_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["fix", str(LOGS / "raw.ndjson.gz")]) == 0
    assert "has no graph breaks recorded" in capsys.readouterr().out


def test_what_is_not_known_is_kept_and_counted(tmp_path: Path) -> None:
    lines = [
        json.dumps(events_of("raw")[0]),
        '{"event_type": "new_kind", "name": "n", "x": [1]}',
        "no json",
        '{"other": 1}',
    ]
    (tmp_path / "x.ndjson").write_text("\n".join(lines))
    read_tritonparse(tmp_path / "x.ndjson", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert (reader.meta("log") or {})["unknown"] == {"new_kind": 1}
        assert reader.meta("skipped_records") == 2
        assert [
            row.title for row in reader.rows(model.Artifact) if row.title.startswith("new_kind")
        ] == ["new_kind · n"]
        assert "Records of unknown kinds" in " ".join(fact.text for fact in overview(reader))


VALUES: tuple[Any, ...] = (
    None,
    -1,
    0,
    "x",
    "",
    [],
    {},
    1e308,
    True,
    [[1]],
    {"a": 1},
    10**30,
    "\x1b[2J",
    "9" * 4000,
    "\ud800",
    2**63,
    [None],
    {"(1,)": 7},
)


def changed(value: Any, chance: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or chance.random() < 0.15:
        return chance.choice(VALUES)
    key: Any = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    value[key] = changed(value[key], chance)
    return value


def test_damaged_logs_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """Seeded: values that are none, bytes that are gone, ends anywhere."""
    every = events_of("autotuned_mapped")
    small = [
        *every[:1],
        *every[440:444],
        *[one for one in every if one["event_type"] == "ir_analysis"][:1],
    ]
    small += [
        {
            "event_type": "autotune",
            "kernel_name": "matmul_kernel",
            "best_config": "a: 1",
            "configs_timings": {"a: 1": 1},
        }
    ]
    for one in small:
        one.get("payload", {}).pop("source_mappings", None)
    packed = [json.dumps(one) for one in small]
    for seed in range(rounds(100, exhaustive=300)):
        chance = random.Random(seed)
        lines = list(packed)
        for i in chance.sample(range(len(lines)), chance.choice((1, 3))):
            lines[i] = json.dumps(changed(json.loads(lines[i]), chance))
        data = "\n".join(lines).encode("utf-8", "surrogatepass")
        if seed % 3 == 0:
            at = chance.randrange(len(data))
            data = data[:at] + data[at + chance.choice((1, 50, 5000)) :]
        if seed % 5 == 0:
            data = data[: chance.randrange(len(data))]
        log, session = tmp_path / "x.ndjson", tmp_path / f"{seed}.fxs"
        log.write_bytes(data)
        read_tritonparse(log, session)
        with SessionReader(session) as reader:
            assert reader.meta("outcome") is not None
            if seed % 20 == 0:
                overview(reader)
                for kernel in reader.rows(model.Kernel):
                    describe_launches(reader, kernel)
        session.unlink()
