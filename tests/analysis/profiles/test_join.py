"""These tests join real profiles of an H100 to their sessions; every sum is that of the trace's own
JSON.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.profile.figures import ProfileFigures, profile_figures
from fx_explorer.instruments.profile.join import (
    NO_GPU,
    ONLY_NAMES,
    OTHER_PROGRAM,
    add_profile,
    joined_profile,
)
from fx_explorer.instruments.profile.verdict import verdict
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.session import SessionReader
from tests.profiles import (
    DATA,
    events,
    gpu_seconds,
    graph_seconds,
    profiled_session,
    recorded_session,
    unpacked,
)


def figures_of(session: Path) -> ProfileFigures:
    with SessionReader(session) as reader:
        found = profile_figures(reader)
    assert found is not None
    return found


def log_with_profile(folder: Path) -> Path:
    """Return the log of one process together with its profile."""
    session = folder / "log.fxs"
    read_log(unpacked("broken.log.gz", folder), session)
    add_profile(session, joined_profile(session, DATA / "broken.bare.json.gz"))
    return session


def session_of(which: str, folder: Path) -> tuple[Path, str]:
    if which == "log":
        return log_with_profile(folder), "broken.bare.json.gz"
    trace = "broken.bare.json.gz" if which == "broken, another process" else f"{which}.json.gz"
    return profiled_session(which.partition(",")[0], folder, trace), trace


WHICH = ("broken", "broken, another process", "gpt2", "log")


@pytest.mark.parametrize("which", WHICH)
def test_nearly_all_time_of_compiled_graphs_is_joined_to_an_operation_and_a_line(
    which: str, tmp_path: Path
) -> None:
    session, trace = session_of(which, tmp_path)
    found, whole = figures_of(session), graph_seconds(events(trace))
    at_node, at_line = found.at_node_s / whole, found.at_line_s / whole
    print(f"{which}: {at_node:.2%} to an operation, {at_line:.2%} to a line")
    assert 0.98 <= at_node <= 1 + 1e-9
    assert 0.95 <= at_line <= 1 + 1e-9


@pytest.mark.parametrize("which", WHICH)
def test_all_sums_are_those_of_the_trace(which: str, tmp_path: Path) -> None:
    session, trace = session_of(which, tmp_path)
    found, told = figures_of(session), events(trace)
    profile = found.profile
    assert profile.work_s == pytest.approx(gpu_seconds(told), rel=1e-9)
    assert profile.compiled_s == pytest.approx(graph_seconds(told), rel=1e-9)
    joined = sum(one.time.seconds for one in found.kernels)
    elsewhere = sum(one.seconds for one in found.others)
    assert joined == pytest.approx(profile.joined_s, rel=1e-9)
    assert joined + elsewhere == pytest.approx(profile.work_s, rel=1e-9)
    assert sum(one.seconds for one in found.lines) == pytest.approx(found.at_line_s, rel=1e-9)
    assert sum(one.seconds for one in found.nodes) == pytest.approx(found.at_node_s, rel=1e-9)
    if found.modules:  # a log names none
        assert sum(row.own.time_s for row in found.modules if not row.is_fold) == pytest.approx(
            joined, rel=1e-9
        )


def test_each_kernel_of_triton_has_the_time_of_its_name_in_the_trace(tmp_path: Path) -> None:
    found, told = figures_of(profiled_session("gpt2", tmp_path)), events("gpt2.json.gz")
    by_name: dict[str, float] = {}
    for one in told:
        if one.get("cat") == "kernel" and one["name"].startswith("triton_"):
            by_name[one["name"]] = by_name.get(one["name"], 0.0) + one["dur"] * 1e-6
    ours: dict[str, float] = {}
    for share in found.kernels:
        if share.cost.use.kernel.language == "triton":
            name = share.cost.use.kernel.name
            ours[name] = ours.get(name, 0.0) + share.time.seconds
    assert len(ours) > 20
    assert ours == pytest.approx(by_name)


def test_what_ran_outside_of_compiled_graphs_is_told_by_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "gpt2"
    folder.mkdir()
    of_steps = figures_of(profiled_session("gpt2", folder)).by_kind
    annotated = [
        one
        for one in events("gpt2.json.gz")
        if one["name"].startswith("Optimizer.step") and one["cat"] == "user_annotation"
    ]
    assert len(annotated) == 2
    assert of_steps["optimizer"] > 0.2 * sum(of_steps.values())
    of_breaks = figures_of(profiled_session("broken", tmp_path))
    assert set(of_breaks.by_kind) == {"eager", "break"}
    (at_break,) = [one for one in of_breaks.others if one.kind == "break"]
    assert (at_break.name, at_break.compilation, at_break.runs) == ("aten::item", "0/1", 3)


def test_idle_times_are_what_is_between_the_work_of_the_gpu(tmp_path: Path) -> None:
    found = figures_of(profiled_session("gpt2", tmp_path))
    work = sorted(
        (one["ts"], one["ts"] + one["dur"])
        for one in events("gpt2.json.gz")
        if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    )
    end, idle, longest = work[0][0], 0.0, 0.0
    for start, stop in work:
        idle += max(0.0, start - end)
        longest = max(longest, start - end)
        end = max(end, stop)
    assert found.idle_s == pytest.approx(idle * 1e-6, rel=1e-6)
    assert found.profile.span_s == pytest.approx((end - work[0][0]) * 1e-6, rel=1e-6)
    first = found.gaps[0]
    assert first.seconds == pytest.approx(longest * 1e-6, rel=1e-6)
    assert [gap.seconds for gap in found.gaps] == sorted(
        (gap.seconds for gap in found.gaps), reverse=True
    )
    assert all(sum(gap.doing_s) <= gap.seconds * (1 + 1e-6) for gap in found.gaps)
    assert sum(first.doing_s) > 0.9 * first.seconds


def test_a_gap_in_which_torch_compiles_says_so(tmp_path: Path) -> None:
    found = figures_of(profiled_session("broken", tmp_path))
    assert found.gaps[0].doing[0] == "torch compiles, called from [0/1]"
    assert found.gaps[0].doing_s[0] > 0.9 * found.gaps[0].seconds


@pytest.mark.parametrize(("session", "trace"), [("broken", "gpt2"), ("gpt2", "broken")])
def test_a_profile_of_another_program_joins_nothing_and_says_so(
    session: str, trace: str, tmp_path: Path
) -> None:
    found = figures_of(profiled_session(session, tmp_path, f"{trace}.json.gz"))
    assert found.kernels == ()
    assert found.profile.joined_calls == 0 < found.profile.graph_calls
    assert OTHER_PROGRAM in verdict(found)
    assert {one.kind for one in found.others} >= {"unjoined"}


def test_the_same_file_is_kept_once_and_another_counts_last(tmp_path: Path) -> None:
    session = profiled_session("broken", tmp_path)
    first = figures_of(session)
    add_profile(session, joined_profile(session, DATA / "broken.json.gz"))
    again = figures_of(session)
    assert again.profiles == 1
    assert again.profile.joined_s == first.profile.joined_s
    add_profile(session, joined_profile(session, DATA / "broken.bare.json.gz"))
    both = figures_of(session)
    assert both.profiles == 2
    assert both.profile.file == "broken.bare.json.gz"
    assert any("2 profiles" in sentence for sentence in verdict(both))


def changed_trace(folder: Path, keep: object) -> Path:
    """Write the events of a real trace that ``keep`` wants."""
    file = folder / "changed.json"
    file.write_text(
        json.dumps({"traceEvents": [one for one in events("broken.json.gz") if keep(one)]})
    )  # type: ignore[operator]
    return file


def test_without_the_events_of_the_cpu_nothing_is_joined_and_that_is_said(tmp_path: Path) -> None:
    session = recorded_session("broken", tmp_path)
    add_profile(
        session,
        joined_profile(session, changed_trace(tmp_path, lambda one: one.get("cat") == "kernel")),
    )
    found = figures_of(session)
    assert found.kernels == ()
    assert ONLY_NAMES in verdict(found)
    assert set(found.by_kind) == {"unjoined", "not known"}


def test_without_launches_the_ids_of_operators_join_as_much(tmp_path: Path) -> None:
    session = recorded_session("broken", tmp_path)
    trace = changed_trace(
        tmp_path, lambda one: one.get("cat") not in ("cuda_runtime", "cuda_driver")
    )
    add_profile(session, joined_profile(session, trace))
    found = figures_of(session)
    assert found.profile.joined_s == pytest.approx(
        graph_seconds(events("broken.json.gz")), rel=1e-9
    )


def test_a_profile_of_the_cpu_alone_has_the_times_of_library_calls(tmp_path: Path) -> None:
    session = recorded_session("broken", tmp_path)
    trace = changed_trace(tmp_path, lambda one: one.get("cat") in ("cpu_op", "user_annotation"))
    add_profile(session, joined_profile(session, trace))
    found = figures_of(session)
    assert NO_GPU in verdict(found)
    assert found.profile.device == "cpu"
    assert found.gaps == ()
    assert {one.cost.use.kernel.name for one in found.kernels} >= {
        "extern_kernels.mm",
        "extern_kernels.addmm",
    }


def test_a_stack_that_torch_wrote_into_the_trace_gives_the_line_of_what_is_joined_to_no_kernel(
    tmp_path: Path,
) -> None:
    session = recorded_session("broken", tmp_path)
    told = events("broken.json.gz")
    stack = 'File "lib.py", line 3, in call\n    return f(x)\nFile "eager.py", line 41, in step\n    out / out.norm()'
    for one in told:
        if one["name"] == "aten::linalg_vector_norm":
            one["args"] |= {"stack_trace": stack, "node_name": "norm"}
    file = tmp_path / "provenance.json"
    file.write_text(json.dumps({"traceEvents": told}))
    add_profile(session, joined_profile(session, file))
    (norm,) = [one for one in figures_of(session).others if one.name == "aten::linalg_vector_norm"]
    assert (norm.file, norm.line) == ("eager.py", 41)


def test_versions_that_run_the_same_code_share_the_time_where_nothing_names_them(
    tmp_path: Path,
) -> None:
    session = recorded_session("broken", tmp_path)
    told = events("broken.json.gz")
    for one in told:
        one["name"] = one["name"].replace("Torch-Compiled Region: ", "region ")
    file = tmp_path / "unnamed.json"
    file.write_text(json.dumps({"traceEvents": told}))
    with SessionReader(session) as reader:
        names = {row.id: row.name for row in reader.rows(model.Kernel)}
    joined = joined_profile(session, file)
    assert joined.profile.shared_s > 0
    shared = [names[row.kernel] for row in joined.times if row.how == "shared"]
    assert len(shared) > len(set(shared))
    assert joined.profile.joined_s == pytest.approx(graph_seconds(told), rel=1e-9)


def test_a_trace_that_was_cut_off_joins_what_it_has_and_says_so(tmp_path: Path) -> None:
    session = recorded_session("gpt2", tmp_path)
    whole = gzip.decompress((DATA / "gpt2.json.gz").read_bytes())
    file = tmp_path / "cut.json"
    file.write_bytes(whole[: int(len(whole) * 0.9)])
    add_profile(session, joined_profile(session, file))
    found = figures_of(session)
    assert 0 < found.profile.joined_s < graph_seconds(events("gpt2.json.gz"))
    assert any("incomplete" in sentence for sentence in verdict(found))
