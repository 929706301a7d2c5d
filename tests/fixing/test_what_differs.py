"""These tests check the differences that a trial sees in a call: pairs of programs that differ in
one thing that a call can change (cases_of_change.py).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from fx_explorer.instruments.fixes.measure import process_state
from fx_explorer.instruments.fixes.measure.outside import OutsideEffects
from tests.exhaustive import one_of
from tests.fixing import cases_of_change as cases
from tests.fixing.cases_of_change import Pair
from tests.fixing.observed import differences, in_a_child


@pytest.fixture
def few_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of Python's own modules are left out, which are compared after every call: half of the
    time. Those are looked at in cases of the process.
    """
    monkeypatch.setattr(process_state, "_modules", list)


DIFFERING = [*cases.STATE, *cases.RESULTS, *cases.OTHER_INPUTS, *cases.WRITTEN_AND_RAISED]


@pytest.mark.usefixtures("few_modules")
@pytest.mark.parametrize("pair", one_of(2, DIFFERING), ids=lambda pair: pair.name)
def test_a_difference_of_one_kind_is_found(tmp_path: Path, pair: Pair) -> None:
    found = differences(tmp_path, pair.before, pair.after, pair.inputs)
    assert found.differences, "nothing was found"
    assert any(pair.said in told for told in found.differences), found.differences


@pytest.mark.parametrize("pair", cases.PROCESS, ids=lambda pair: pair.name)
def test_a_setting_of_the_process_that_only_the_original_changes_is_found(
    tmp_path: Path, pair: Pair
) -> None:
    found = in_a_child(
        lambda: differences(tmp_path, pair.before, pair.after, pair.inputs).differences
    )
    assert any(pair.said in told for told in found), found


@pytest.mark.parametrize("pair", cases.PRINTED, ids=lambda pair: pair.name)
def test_what_is_no_longer_written_is_found(
    tmp_path: Path, pair: Pair, capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings(), capfd.disabled():  # what stands on descriptor 1 is read
        warnings.simplefilter("always")
        found = differences(tmp_path, pair.before, pair.after, pair.inputs)
    assert ((found.lost + found.other_messages)[:1], found.differences) == ([pair.said], [])


def test_the_order_of_a_print_and_a_log_message_is_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    head = "import logging\nL = logging.getLogger('p')\n"
    lines = ("    print('a')\n", "    L.warning('b')\n")
    one, other = (
        f"{head}def f(x):\n{''.join(order)}    return x * 2\n" for order in (lines, lines[::-1])
    )
    with capfd.disabled():
        found = differences(tmp_path, one, other)
    assert (found.lost, found.new, found.moved) == ([], [], "WARNING p: b")


@pytest.mark.usefixtures("few_modules")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("time.time()", "time.time(), which differs from run to run"),
        ("uuid.uuid4()", "uuid.uuid4(), which differs from run to run"),
        ("os.getpid()", "posix.getpid(), which differs from run to run"),
        ("id(x)", "builtins.id(), which differs from run to run"),
        (
            "gc.set_threshold(700)",
            ("effects of gc.set_threshold outside of the program's own values"),
        ),
        ("signal.alarm(0)", "effects of _signal.alarm outside of the program's own values"),
        ("os.path.exists('/nowhere')", "what os.stat says later"),
        ("len(os.listdir('/'))", "what os.listdir says later"),
        ("pathlib.Path('/').stat().st_mtime", "what os.stat says later"),
        ("shutil.disk_usage('/').free", "what os.statvfs says later"),
        ("threading.active_count()", "what threading.active_count says later"),
        (
            "open('/dev/null', 'w').close()",
            "the program after it opens /dev/null for writing",
        ),
        ("x = x if x.sum() != 12345.5 else x + 1", "the other branch of the condition in line 6"),
        ("SET.add(object())", "1 objects in a set, whose order changes (set) of global SET"),
    ],
)
def test_what_cannot_be_compared_is_named(tmp_path: Path, line: str, said: str) -> None:
    head = "import gc, os, pathlib, shutil, signal, threading, time, uuid\nSET = set()\n"
    before = f"{head}\ndef f(x):\n    {line}\n    return x * 2\n"
    found = differences(tmp_path, before, before.replace(f"    {line}\n", f"    {line}; pass\n"))
    assert any(said in one for one in found.not_compared), found.not_compared


CHECK = "def check(n):\n    if n == 7:\n        raise ValueError(n)\n"


def test_a_call_that_is_left_out_is_not_known_to_do_nothing_where_no_input_has_made_it_raise(
    tmp_path: Path,
) -> None:
    before = f"{CHECK}\ndef f(x):\n    check(len(x))\n    return x * 2\n"
    skipped = before.replace(
        "    check(", "    if not torch.compiler.is_compiling():\n        check("
    )
    for after in (before.replace("    check(len(x))\n", ""), skipped):
        assert (
            "line 4 of program.py, which no input reached"
            in differences(tmp_path, before, after).not_compared
        )
    same = before.replace("check(len(x))", "check(x.shape[0])")
    moved = before.replace(
        "    check(len(x))\n    return x * 2\n", "    y = x * 2\n    check(len(x))\n    return y\n"
    )
    assert [differences(tmp_path, before, after).not_compared for after in (same, moved)] == [
        [],
        [],
    ]


@pytest.mark.parametrize(
    "after",
    [
        "check(len(x))\n    y = x * 2\n    STATE[0] = 1\n    return y",
        "check(len(x))\n    try:\n        y = x * 2\n    finally:\n        STATE[0] = 1\n    return y",
    ],
    ids=["finally at the end", "before the try"],
)
def test_a_try_of_other_statements_says_nothing_while_no_input_raises_inside(
    tmp_path: Path, after: str
) -> None:
    head = f"STATE = [0]\n{CHECK}\ndef f(x):\n    "
    before = f"{head}try:\n        check(len(x))\n        y = x * 2\n    finally:\n        STATE[0] = 1\n    return y\n"
    found = differences(tmp_path, before, f"{head}{after}\n")
    assert (
        "an exception inside the try in line 8 of program.py, which no input raised"
        in found.not_compared
    )
    raising = before.replace("n == 7", "n == 4")  # what it was called with
    found = differences(tmp_path, raising, f"{head}{after}\n".replace("n == 7", "n == 4"))
    assert not any("no input raised" in told for told in found.not_compared), found.not_compared


def test_a_descriptor_may_be_opened_which_has_no_name() -> None:
    found: list[str] = []
    with OutsideEffects().recorded(found), open(os.open(os.devnull, os.O_RDONLY)) as file:
        file.read()
    assert found == [f"reads {os.devnull}"]


def test_a_file_that_is_read_once_instead_of_in_each_call_is_named(tmp_path: Path) -> None:
    file = tmp_path / ("a folder" * 10) / "scale.txt"
    file.parent.mkdir()
    file.write_text("2")
    reading = f"float(open({str(file)!r}).read())"
    before = f"def f(x):\n    return x * {reading}\n"
    after = f"SCALE = {reading}\n\ndef f(x):\n    return x * SCALE\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        assert differences(tmp_path, before, before).not_compared == []
        found = differences(tmp_path, before, after)
    (said,) = found.not_compared
    assert said.startswith("later values of …")
    assert said.endswith("scale.txt, which is no longer read in each call"), (
        "a long path is cut in front"
    )


@pytest.mark.usefixtures("few_modules")
@pytest.mark.parametrize("pair", cases.EQUAL, ids=lambda pair: pair.name)
def test_what_is_equal_is_not_refused(tmp_path: Path, pair: Pair) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = differences(tmp_path, pair.before, pair.after, pair.inputs)
    assert (found.differences, found.lost, found.new) == ([], [], [])
    again = differences(tmp_path, pair.before, pair.before, pair.inputs)
    assert again.differences == []
