"""These tests read texts of 100,000 characters where torch writes a hundred: the reading time grows
only with the length.

Each runs in a process that is ended when it hangs: a linear answer takes a hundredth of a second.
"""

from __future__ import annotations

import faulthandler
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fx_explorer.analysis.graph_expressions import _OVERLOAD, _QUOTED_OR_DEVICE
from fx_explorer.analysis.graph_texts import _NO_PYTHON
from fx_explorer.analysis.kernel_lines import _LOC
from fx_explorer.analysis.naming import plain_code, plain_name
from fx_explorer.instruments.recompiles.guard_changes import change_of
from fx_explorer.model import Failure
from fx_explorer.overview import ending
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.writer import finish_session
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.printed_graph import inputs_in
from fx_explorer.torch_texts.reports import parse_reason, what_failed
from tests.exhaustive import one_of

ROOT = Path(__file__).parents[2]
"""Not that of conftest.py, with which each of the processes would import torch."""

LENGTH = 100_000

HANGS_AFTER_S = 100.0

READERS: dict[str, Callable[[str], object]] = {
    "parse_reason": parse_reason,
    "what_failed": what_failed,
    "change_of": change_of,
    "plain_name": plain_name,
    "plain_code": plain_code,
    "inputs_in": lambda text: inputs_in(text, {"a": 1}),
    "quoted": lambda text: [
        pattern.sub("", text) for pattern in (_QUOTED_OR_DEVICE, _OVERLOAD, _NO_PYTHON)
    ],
    "line of PTX": lambda text: _LOC.match(bounded(text)),
}

REPEATED = (
    "a", "1", " ", "\n", "# ", "a.", "a[", "L['a']", "L[", "'", '"', '\\"', "\\'", "(", ")", "0/0: ", " == ", "#", "a.size()[0]",
    "list(dict.keys(", "___dict_contains('a', ", "object.__getattribute__((a), '", "dict(type(", " # a:1 in f (", "_", "1 <= ",
)  # fmt: skip

PREFIXES = ("", "0/0: ", "tensor '", "L['a'].", "\t.loc 1 1 1", "0/0: a # b # ", "'", "not ")


def texts() -> Iterator[str]:
    for prefix in PREFIXES:
        for repeated in REPEATED:
            yield prefix + (repeated * LENGTH)[:LENGTH]


def main() -> None:
    faulthandler.dump_traceback_later(HANGS_AFTER_S - 5, exit=True)
    read = READERS[sys.argv[1]]
    for text in one_of(5, texts()):  # each prefix, and each repetition, is among them
        read(text)


@pytest.mark.parametrize("reader", one_of(2, READERS))
def test_long_texts_do_not_hang_a_reader(reader: str) -> None:
    command = [sys.executable, "-m", "tests.bad_input.test_long_texts", reader]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_failures_that_share_a_text_read_it_once_and_the_sum_of_tracebacks_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        texts = [writer.text(f"{number} " + "x" * 1_000) for number in range(5)]
        for text in (*texts[:1] * 500, *texts[1:]):
            writer.add(Failure(0, 0, "program", None, "ValueError", "m", text))
    finish_session(path)
    monkeypatch.setattr(ending, "MOST_CHARACTERS", 2_500)
    with SessionReader(path) as reader:
        shown = [failure.traceback for failure in ending.failures(reader)]
    assert len({id(one) for one in shown[:500]}) == 1
    assert [one[:1] for one in shown[500:502]] == ["1", "2"]
    assert shown[502:] == [ending.LEFT_OUT] * 2


def test_a_reason_is_taken_apart_where_code_and_remark_have_marks_of_their_own() -> None:
    reason = parse_reason(
        "0/0: L['n'] == 3  # return x * n  # b/net.py:12 in forward (_dynamo/x.py:3 in y)"
    )
    assert (reason.of, reason.guard, reason.file, reason.line) == (
        "0/0",
        "L['n'] == 3",
        "b/net.py",
        12,
    )
    assert parse_reason("0/0: a == 1 # net.py:3 in f").guard == "a == 1 # net.py:3 in f"
    assert parse_reason("0/0: a  # b # c  # net.py:3 in f").line == 3


if __name__ == "__main__":
    main()
