"""These tests check a function that is compiled very often: the recorded data grows with the
recompiles, not with their square.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.capture.dynamo import failed_guards as capture
from fx_explorer.instruments.guards.guard_tree import explained_checks
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.instruments.recompiles.causes import causes, recompiles
from fx_explorer.session import SessionReader, schema
from fx_explorer.torch_texts.reports import what_failed
from tests.capture.recorded import Compile, failures, record
from tests.conftest import OpenedReader
from tests.exhaustive import in_exhaustive_runs, with_others

Program = Callable[[Compile], None]


def function(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    space: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    exec(f"def f{number}(x): return x + {number}", space)
    return space[f"f{number}"]


def calling(x: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return function(x) * 2


def named(x: torch.Tensor, name: str) -> torch.Tensor:
    return x + len(name)


def chosen(x: torch.Tensor, table: dict[str, float], key: str) -> torch.Tensor:
    return x * table[key]


def functions(count: int) -> Program:
    def program(compile_: Compile) -> None:
        compiled, kept = compile_(calling), [function(number) for number in range(count)]
        for one in kept:
            compiled(torch.ones(4), one)

    return program


def shapes(count: int) -> Program:
    def program(compile_: Compile) -> None:
        compiled = torch.compile(calling, backend="eager", dynamic=False)
        for size in range(count):
            compiled(torch.ones(size + 2), torch.sin)

    return program


def keys(count: int) -> Program:
    def program(compile_: Compile) -> None:
        compiled = compile_(chosen)
        for number in range(count):
            compiled(torch.ones(4), {f"k{number}": 1.0, "b": 2.0}, f"k{number}")

    return program


def texts(count: int) -> Program:
    def program(compile_: Compile) -> None:
        compiled = compile_(named)
        for number in range(count):
            compiled(torch.ones(4), "a" * number)

    return program


@pytest.fixture(autouse=True, scope="module")
def no_limit() -> Iterator[None]:
    with torch._dynamo.config.patch(recompile_limit=10_000, accumulated_recompile_limit=10_000):
        yield


@dataclass(frozen=True)
class Recorded:
    path: Path
    values_looked_at: int


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory, no_limit: None) -> Recorded:
    """A function that is compiled for twenty others, with how often a value was looked at."""
    path = tmp_path_factory.mktemp("recompiles") / "20.fxs"
    looked: list[object] = []
    look = capture.guarded_value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "guarded_value", lambda *given: looked.append(given) or look(*given))
        record(path, functions(20), backend="eager").close()
    return Recorded(path, len(looked))


def rows(reader: SessionReader) -> int:
    """Return the number of rows without times, since a pause of Python's garbage collector is a
    time too.
    """
    counted = (row_type for row_type in schema.TABLES if row_type is not model.Span)
    return sum(reader.count(row_type) for row_type in counted)


@pytest.mark.parametrize("program", with_others([shapes], [functions, keys, texts]))
def test_twice_as_many_recompiles_are_twice_as_many_rows(
    tmp_path: Path, program: Callable[[int], Program]
) -> None:
    few, some, many = (
        record(tmp_path / f"{n}.fxs", program(n), backend="eager") for n in (4, 8, 16)
    )
    assert many.count(model.Compilation) == 16
    assert many.count(model.Recompile) == 15
    assert rows(many) - rows(some) == pytest.approx(2 * (rows(some) - rows(few)), rel=0.02)
    times = [row.times for row in many.rows(model.Recompile)]
    assert times == list(range(1, 16)), "all that were compiled before"
    assert [one.of for one in causes(many)] == [f"0/{n}" for n in range(15)]
    assert failures(many) == []


def test_a_value_is_looked_at_once_a_recompile(twenty: Recorded) -> None:
    assert twenty.values_looked_at == 19


def test_a_recompile_of_many_versions_takes_little_room(tmp_path: Path, twenty: Recorded) -> None:
    """2,000 are to stay below 20 MB."""
    forty = tmp_path / "40.fxs"
    record(forty, functions(40), backend="eager").close()
    assert (forty.stat().st_size - twenty.path.stat().st_size) / 20 < 7_000


@in_exhaustive_runs
def test_what_is_new_is_found_behind_many_versions_that_failed_on_something_else(
    tmp_path: Path,
) -> None:
    """Nineteen versions fail on the name, which is not new; the first of all has that name, and
    fails on the dtype.
    """

    def program(compile_: Compile) -> None:
        compiled = compile_(named)
        for number in range(20):
            compiled(torch.ones(4), chr(ord("a") + number))
        compiled(torch.ones(4, dtype=torch.float64), "a")

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    *_, last = causes(reader)
    assert last.compilation == "0/20"
    kinds = {one.change.kind: one.times for one in recompiles(reader) if one.compilation == "0/20"}
    assert sum(kinds.values()) == 20
    assert kinds["value"] > capture.MOST_KEPT
    assert last.description == "the dtype of x was float32 and now is float64"


def test_beyond_what_is_kept_versions_are_counted() -> None:
    failed: dict[str, capture.FailedGuard] = {}
    for number in range(40):
        for _ in range(3):
            capture.count_failed(
                failed, f"0/{number}: key{number} == 3  # a line", capture.GuardedValue
            )
    *kept, others = failed.values()
    assert [one.times for one in kept] == [3] * capture.MOST_KEPT
    assert (others.reason, others.times) == (capture.OTHERS, 3 * (40 - capture.MOST_KEPT))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("0/3: k == 2  # f.py:3 in f", "0/2: k == 5  # f.py:3 in f", True),
        ("0/3: k == 2", "0/3: n == 2", False),
        ("0/0: d['a'] == 2", "0/0: d['b'] == 2", False),
        ("0/0: d['a'] == 'x == y'", "0/1: d['a'] == 'z'", True),
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6",
            "0/1: tensor 'x' size mismatch at index 0. expected 5, actual 6",
            True,
        ),
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6",
            "0/0: tensor 'x' size mismatch at index 1. expected 4, actual 6",
            False,
        ),
        (
            "0/0: ___check_obj_id(g.__code__, 139878729909936), type=<class 'code'>",
            "0/1: ___check_obj_id(g.__code__, 77777777)",
            True,
        ),
        ("0/0: 2 <= x.size()[0]  # s77", "0/0: 2 <= y.size()[0]  # s27", False),
        ("!0/1/0: len(xs) == 2", "!0/1/1: len(xs) == 3", True),
        ("0/0: list(dict.keys(d)) == ['a']", "0/1: list(dict.keys(d)) == ['b']", True),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "0/0: GLOBAL_STATE changed: num_threads ", False),
    ],
)
def test_guards_that_failed_on_the_same_are_known_by_torchs_words(
    one: str, other: str, is_same: bool
) -> None:
    assert (what_failed(one) == what_failed(other)) is is_same


def test_a_long_condition_is_stored_once_and_read_as_it_was(
    twenty: Recorded, reader: OpenedReader
) -> None:
    session = reader(twenty.path)
    states = [check.code for check in session.rows(model.GuardCheck, kind="GLOBAL_STATE")]
    assert len(states) == 20
    assert all('"grad_mode":true' in code for code in states)
    stored = [
        row[0] for row in session.query("SELECT code FROM guard_check WHERE kind='GLOBAL_STATE'")
    ]
    assert len(set(stored)) == 1
    assert isinstance(stored[0], int)


def test_the_guards_of_every_version_are_asked_for_once(
    twenty: Recorded, reader: OpenedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view of 2,000 versions took a minute: for each of them the guards of all were read."""
    session = reader(twenty.path)
    read = 0
    query = session._query

    def counting(sql: str, values: object = ()) -> object:
        nonlocal read
        found = query(sql, values)  # type: ignore[arg-type]
        read += len(found)
        return found

    monkeypatch.setattr(session, "_query", counting)
    table = guards_table(session)
    checks = sum(1 for _ in explained_checks(session))
    assert len(table.rows) > checks
    assert read < 12 * checks
