"""These tests check logs of two real ranks: their first difference is found and named, and no
difference is claimed for equal ranks.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from fx_explorer.instruments.ranks.compared import ComparedRanks, compare
from fx_explorer.instruments.ranks.rank_finding import waits
from fx_explorer.instruments.ranks.report import ranks_text
from fx_explorer.output.formats import text_lines
from tests.ranks.logs_of_ranks import H200, as_rank, text_of, with_texts, write_rank


def ranks(*given: Path) -> ComparedRanks:
    return compare(given)


def of_ddp(folder: Path, count: int, odd: int, changed: bytes) -> ComparedRanks:
    """Return ranks of a DDP step that are alike, and one rank with another log."""
    log = text_of(H200 / "h200_ranks_ddp" / "rank_0.log.gz")
    for rank in range(count):
        write_rank(folder, rank, as_rank(changed if rank == odd else log, rank))
    return ranks(folder)


def test_the_branch_that_one_rank_took_is_named_with_its_line_and_the_value_that_decided() -> None:
    found = ranks(H200 / "h200_ranks_diverge")
    assert found.differing == (1,)
    assert found.first is not None
    assert found.first.words == (
        "rank 1 took a different branch at ranks_zoo.py:29, where rank 0 had r == 0: "
        "its graph has softmax, which the graph of rank 0 lacks"
    )
    assert (Path(found.first.file).name, found.first.line) == ("ranks_zoo.py", 29)


def test_two_files_of_one_name_are_told_apart_in_words_and_text_when_the_logs_are_closed(
    tmp_path: Path,
) -> None:
    """The program's file is called as one of torch's that the log names, too."""
    old, new = b"ranks_zoo.py", b"_functional_collectives.py"
    for rank in (0, 1):
        log = text_of(H200 / "h200_ranks_diverge" / f"rank_{rank}.log.gz")
        heads = [
            line if line.startswith(b"\t") else line.replace(old, new) for line in log.splitlines()
        ]
        write_rank(tmp_path, rank, with_texts(b"\n".join(heads), old, new))
    found = ranks(tmp_path)
    assert found.first is not None
    assert "a different branch at project/_functional_collectives.py:29, where" in found.first.words
    text = " ".join(text_lines(ranks_text(found, 200), None))
    assert "project/_functional_collectives.py" in text
    assert not re.search(r"(?<!project/)(?<!distributed/)_functional_collectives\.py", text)


def test_the_line_that_is_named_is_the_one_torch_printed_above_the_operation() -> None:
    log = text_of(H200 / "h200_ranks_diverge" / "rank_1.log.gz").decode()
    printed = re.search(r"# File: (\S+):(\d+) in f, code: .*\n\t +x_6: .* = x_5\.softmax", log)
    assert printed is not None
    first = ranks(H200 / "h200_ranks_diverge").first
    assert first is not None
    assert (first.file, first.line) == (printed[1], int(printed[2]))


def test_a_condition_on_another_line_is_no_reason_where_the_rank_that_failed_has_no_checks(
    tmp_path: Path,
) -> None:
    for rank in (0, 1):
        log = text_of(H200 / "h200_ranks_diverge" / f"rank_{rank}.log.gz")
        moved = with_texts(
            log, b"ranks_zoo.py:29 in f", b"ranks_zoo.py:28 in f", b"dynamo_cpp_guards_str"
        )
        write_rank(tmp_path, rank, moved)
    first = ranks(tmp_path).first
    assert first is not None
    assert "r == 0" not in first.words
    assert "its graph has softmax, which the graph of rank 0 lacks" in first.words


def test_what_followed_is_told_the_other_sizes_and_the_error() -> None:
    found = ranks(H200 / "h200_ranks_diverge")
    words = {one.aspect: one.words for one in found.findings}
    assert (
        words["inputs"]
        == "f() at ranks_zoo.py:27 was compiled for different inputs: x is f32[32, 1024] on rank 1 and f32[16, 1024] on rank 0"
    )
    assert words["status"].startswith(
        "rank 1 failed to compile f() at ranks_zoo.py:27 in AOTAutograd, rank 0 compiled it: RuntimeError"
    )


def test_a_rank_that_failed_may_never_come_to_the_collective_in_which_the_other_waits() -> None:
    (wait,) = waits(ranks(H200 / "h200_ranks_diverge").summaries)
    assert (wait.never, wait.waiting) == ((1,), (0,))


def test_ranks_that_did_the_same_on_their_own_devices_are_alike() -> None:
    found = ranks(H200 / "h200_ranks_ddp")
    assert found.first is None
    assert [group.ranks for group in found.groups] == [(0, 1)]


def test_many_ranks_make_two_groups_and_the_odd_one_is_held_against_the_others(
    tmp_path: Path,
) -> None:
    log = text_of(H200 / "h200_ranks_ddp" / "rank_0.log.gz")
    changed = with_texts(
        log, b"torch._C._nn.gelu(linear_3)", b"torch.relu(linear_3)", b"dynamo_output_graph"
    )
    found = of_ddp(tmp_path, 6, 4, changed)
    assert [group.ranks for group in found.groups] == [(0, 1, 2, 3, 5), (4,)]
    assert found.first is not None
    assert "its graph computes relu where the others computed gelu" in found.first.words


def test_renamed_values_are_no_divergence(tmp_path: Path) -> None:
    log = text_of(H200 / "h200_ranks_ddp" / "rank_0.log.gz")
    assert (
        of_ddp(
            tmp_path, 2, 1, with_texts(log, b"linear_3", b"other_name", b"dynamo_output_graph")
        ).first
        is None
    )


def test_a_number_of_an_operation_is_noted_and_no_divergence(tmp_path: Path) -> None:
    log = text_of(H200 / "h200_ranks_diverge" / "rank_0.log.gz")
    numbered = with_texts(
        log, b"torch._C._nn.gelu(linear_3)", b"torch.add(linear_3, 7)", b"dynamo_output_graph"
    )
    for rank, number in enumerate((b"7", b"8")):
        write_rank(
            tmp_path,
            rank,
            as_rank(with_texts(numbered, b"(linear_3, 7)", b"(linear_3, " + number + b")"), rank),
        )
    found = ranks(tmp_path)
    assert found.first is None
    assert "numbers" in {one.aspect for one in found.findings}


def test_a_check_of_the_ranks_own_number_is_noted_and_no_divergence(tmp_path: Path) -> None:
    log = text_of(H200 / "h200_ranks_diverge" / "rank_0.log.gz")
    write_rank(tmp_path, 0, log)
    write_rank(
        tmp_path,
        1,
        as_rank(with_texts(log, b"G['r'] == 0", b"G['r'] == 1", b"dynamo_cpp_guards_str"), 1),
    )
    found = ranks(tmp_path)
    assert found.first is None
    (noted,) = found.findings
    assert (
        noted.words == "f() at ranks_zoo.py:27 was compiled for r == 1 on rank 1, r == 0 on rank 0"
    )


def test_other_guards_are_named(tmp_path: Path) -> None:
    log = text_of(H200 / "h200_ranks_diverge" / "rank_0.log.gz")
    write_rank(tmp_path, 0, log)
    write_rank(
        tmp_path,
        1,
        as_rank(with_texts(log, b"G['r'] == 0", b"G['other'] == 0", b"dynamo_cpp_guards_str"), 1),
    )
    first = ranks(tmp_path).first
    assert first is not None
    assert "rank 1 checked other == 0, but rank 0 did not" in first.words


def test_a_recompile_that_only_one_rank_has_is_told_with_the_size_that_was_new(
    tmp_path: Path,
) -> None:
    log = text_of(H200 / "h200_recompiles.log.gz")
    begins = [
        found.start() for found in re.finditer(rb'^V[^\n]*"frame_compile_id": 2\b', log, re.M)
    ]
    for rank in range(3):
        write_rank(tmp_path, rank, log if rank == 1 else log[: begins[0]])
    first = ranks(tmp_path).first
    assert first is not None
    assert first.words == (
        "rank 1 recompiled f() at trace_zoo.py:41, but the others did not: size 0 of x was 8 and now is 16"
    )


def test_a_missed_cache_is_told_with_the_part_of_the_key_that_differs(tmp_path: Path) -> None:
    log = text_of(H200.parent / "tlparse_ranks" / "cache_hit_miss.log.gz")
    other = log.replace(b'{"name": "fx_graph_cache_miss"', b'{"name": "fx_graph_cache_hit"', 1)
    assert other != log
    setting = b"[esstihe2nyydk4mhzpvox3qkajyu5y5t23hk3fi2me7jn75xi3o] inductor_config[halide.debug]: False"
    other = with_texts(
        other,
        setting,
        b"[ffff] inductor_config[halide.debug]: True",
        b'{"name": "fx_graph_cache_hit"',
    )
    for rank, text in enumerate((log, log, other)):
        write_rank(tmp_path, rank, text)
    (told,) = (one.words for one in ranks(tmp_path).findings if one.aspect == "cache")
    assert told == (
        "torch's caches answered differently for fn() at test_codecache.py:459: rank 2 hit the FX "
        "graph cache and passed by AOTAutograd's cache, the others missed the FX graph cache and "
        "passed by AOTAutograd's cache. The difference in the key is "
        "inductor_config[halide.debug]: True on rank 2, False on the others"
    )


def test_sessions_of_a_job_are_compared_like_its_logs(tmp_path: Path) -> None:
    from fx_explorer.readers.torch_trace import read_log

    for rank in (0, 1):
        read_log(
            H200 / "h200_ranks_diverge" / f"rank_{rank}.log.gz", tmp_path / f"train.rank{rank}.fxs"
        )
    first = ranks(tmp_path).first
    assert first is not None
    assert "a different branch at ranks_zoo.py:29" in first.words


def test_a_log_and_its_packed_copy_say_the_same(tmp_path: Path) -> None:
    log = text_of(H200 / "h200_ranks_ddp" / "rank_0.log.gz")
    (tmp_path / "rank_0.log").write_bytes(log)
    (tmp_path / "rank_1.log.gz").write_bytes(gzip.compress(as_rank(log, 1)))
    assert ranks(tmp_path).first is None
