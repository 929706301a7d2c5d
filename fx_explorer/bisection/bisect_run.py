"""This module carries a bisect out: over the commits of a repository, in a worktree of its own, or
over interpreters with different releases of torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fx_explorer.analysis.words import counted, first_line
from fx_explorer.bisection.changed_facts import ChangedFact, changed_facts
from fx_explorer.bisection.condition import Condition, StepOutcome, narration
from fx_explorer.bisection.repository import (
    CannotCheckOut,
    Commit,
    Hunk,
    Repository,
    Worktree,
)
from fx_explorer.bisection.search import Search
from fx_explorer.client.forked_workers import fork_server
from fx_explorer.client.session_files import place_session, session_file
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One step that can be tried."""

    name: str
    """The hash of a commit, or an interpreter."""
    title: str = ""
    """The subject of the commit."""

    @property
    def shown(self) -> str:
        if self.title:
            return f'{self.name[:10]} "{self.title}"'
        return self.name


@dataclass(slots=True)
class Bisect:
    """A bisect: what was tried, and what is known."""

    condition: Condition
    steps: Sequence[SearchStep]
    search: Search
    tried: dict[int, StepOutcome] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    """The steps in the order in which they were tried."""
    hunks: list[Hunk] = field(default_factory=list)
    """What differs in the texts between the last good and the first bad commit."""
    commits: list[Commit] = field(default_factory=list)
    """The suspects, for a bisect over commits."""
    confirmed: bool | None = None
    """Whether a second capture of both said the same, where only times differ; None without."""
    captures: int = 0

    @property
    def facts(self) -> list[ChangedFact]:
        """Return what differs between the last good and the first bad step."""
        good = self.search.last_good
        bad = self.tried[self.search.first_bad]
        fact = bad.fact
        facts = [] if fact is None else [fact]
        good_side = self.tried[good].side if good is not None else None
        if good_side is not None and bad.side is not None:
            facts += changed_facts(good_side, bad.side)
        return facts

    @property
    def suspects(self) -> list[SearchStep]:
        return [self.steps[at] for at in self.search.suspects]


Try = Callable[[SearchStep, Path], StepOutcome]
"""Tries a step, and writes its session to a path."""


def _drive(bisect: Bisect, try_step: Try, folder: Path, keep: Path | None) -> None:
    """Try steps until the first bad one is known. Raises UsageError where the first is not good or
    the last not bad.
    """
    progress = narration()
    search = bisect.search
    while (at := search.next_step()) is not None:
        progress.print_message(
            f"{len(bisect.order) + 1}. {bisect.steps[at].shown} "
            f"({counted(search.most_left, 'capture')} left at most)"
        )
        tried = try_step(bisect.steps[at], folder / f"{at}.fxs")
        bisect.captures += tried.side is not None
        if at == len(bisect.steps) - 1:
            tried = _checked_bad(bisect, tried)
        bisect.tried[at], search.verdicts[at] = tried, tried.verdict
        bisect.order.append(at)
        progress.print_message(f"   {tried.verdict}: {first_line(tried.why)}")
        _remove_others(folder, search)
    progress.end()
    if search.last_good is None:
        _raise_not_good(bisect)
    _confirm(bisect, try_step, folder)
    if keep is not None:
        _keep(bisect, folder, keep)


def _checked_bad(bisect: Bisect, tried: StepOutcome) -> StepOutcome:
    """Return the result of the last step, which must be bad. Raises UsageError if it is not."""
    step = bisect.steps[-1]
    if tried.side is None:
        raise UsageError(f"the program cannot be judged at {step.shown}: {tried.why}")
    if tried.ended:
        return bisect.condition.look_for_ending_of(tried)
    if tried.verdict == "good":
        raise UsageError(
            f"the condition is met at {step.shown}, which is given as bad: there is no bad commit "
            "to look for"
        )
    if tried.verdict == "skipped":
        raise UsageError(f"the condition cannot be judged at {step.shown}: {tried.why}")
    return tried


def _raise_not_good(bisect: Bisect) -> None:
    step, tried = bisect.steps[0], bisect.tried[0]
    if tried.verdict == "skipped":
        raise UsageError(
            f"{step.shown}, which is given as good, cannot be judged, and every later step that "
            f"can be judged is bad: {first_line(tried.why)}"
        )
    raise UsageError(
        f"{step.shown}, which is given as good, is also bad: {first_line(tried.why)}. Give an "
        "older one."
    )


def _remove_others(folder: Path, search: Search) -> None:
    """Remove the sessions that are neither of the last good nor of the first bad step."""
    kept = {f"{search.first_bad}.fxs", f"{search.last_good}.fxs"}
    for session in folder.glob("*.fxs"):
        if session.name not in kept:
            session.unlink()


def _confirm(bisect: Bisect, try_step: Try, folder: Path) -> None:
    """Capture the last good and the first bad step once more, where only times tell them apart."""
    search = bisect.search
    good, bad = search.last_good, search.first_bad
    if good is None or not bisect.tried[bad].is_of_time:
        return
    progress = narration()
    progress.print_message("a second time, because only times differ, and times vary:")
    verdicts = []
    for at in (good, bad):
        again = try_step(bisect.steps[at], folder / f"again-{at}.fxs")
        bisect.captures += 1
        verdicts.append(again.verdict)
        progress.print_message(
            f"   {bisect.steps[at].shown} {again.verdict}: {first_line(again.why)}"
        )
    progress.end()
    bisect.confirmed = verdicts == ["good", "bad"]


def _keep(bisect: Bisect, folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    sides = {"good": bisect.search.last_good, "bad": bisect.search.first_bad}
    for name, at in sides.items():
        place_session(folder / f"{at}.fxs", session_file(keep / f"{name}.fxs"))


# over the commits of a repository


def bisect_commits(
    condition: Condition, good: str, bad: str, linked: Sequence[str], keep: Path | None
) -> Bisect:
    """Find the commit since which the condition fails. Raises UsageError where the first is not
    good or the last not bad, and for what is no repository or no commit.
    """
    repository = Repository.of(Path.cwd())
    commits = repository.steps(repository.commit(good, "--good"), repository.commit(bad, "--bad"))
    steps = [SearchStep(commit, repository.describe(commit).subject) for commit in commits]
    bisect = Bisect(condition, steps, Search(len(steps)))
    progress = narration()
    if repository.is_dirty:
        progress.print_message(
            "note: your checkout has uncommitted changes; they are not part of any commit, and "
            "are left untouched"
        )
    if steps[0].name != repository.commit(good, "--good"):
        progress.print_message(
            f"note: {good} is not an ancestor of {bad}: their common ancestor {steps[0].shown} is "
            "taken as good"
        )
    progress.print_message(
        f"{counted(len(steps) - 1, 'commit')} after {steps[0].name[:10]}: "
        f"{counted(bisect.search.most_left, 'capture')} at most"
    )
    progress.end()
    keep = keep and keep.absolute()
    _name_files_from_here(condition)
    with temporary_folder() as folder, repository.worktree(folder, linked) as worktree:
        sessions = folder / "sessions"
        sessions.mkdir()
        _use_target_of(worktree, condition)
        places = _python_path(repository, worktree, condition.arguments.python)

        def try_commit(step: SearchStep, session: Path) -> StepOutcome:
            try:
                worktree.check_out(step.name)
            except CannotCheckOut as error:
                return StepOutcome("skipped", f"it cannot be checked out: {error}", 0.0)
            with _moved_to(worktree.folder, places):
                tried = condition.try_step(worktree.path, session, narration(), fork_server())
            _check_files(repository, worktree, tried)
            return tried

        with _told_when_stopped(bisect):
            _drive(bisect, try_commit, sessions, keep)
    good_at, bad_at = bisect.search.last_good, bisect.search.first_bad
    assert good_at is not None
    bisect.hunks = repository.changed_lines(steps[good_at].name, steps[bad_at].name)
    bisect.commits = [repository.describe(step.name) for step in bisect.suspects]
    return bisect


def _name_files_from_here(condition: Condition) -> None:
    """Make the interpreter's path absolute: the program runs in another folder. A virtual
    environment is found by the link in it, which therefore stays.
    """
    python = condition.arguments.python
    if os.sep in python:
        condition.with_arguments(python=os.path.abspath(python))


def _use_target_of(worktree: Worktree, condition: Condition) -> None:
    """Name the target, and the folder of ``--own``, in the worktree where they are given as
    absolute paths.
    """
    top = str(worktree.repository.top)
    arguments = condition.arguments
    if arguments.target.startswith(f"{top}{os.sep}"):
        condition.with_arguments(target=str(worktree.path) + arguments.target.removeprefix(top))
    own = arguments.own
    if own is not None and own.is_absolute() and own.is_relative_to(top):
        condition.with_arguments(own=worktree.path / own.relative_to(top))


IMPORTED_FROM = """
import json, os, sys
places = [place for place in sys.path if place]
for finder in sys.meta_path:
    module = sys.modules.get(getattr(finder, "__module__", None) or "")
    mapping = getattr(module, "MAPPING", None)
    if isinstance(mapping, dict):
        places += [os.path.dirname(str(place)) for place in mapping.values()]
print(json.dumps([sys.prefix, places]))
"""
"""Prints where an interpreter imports from. A project that is installed as editable has its folder
on the path, or in the table of a finder of setuptools'.
"""


def _python_path(repository: Repository, worktree: Worktree, python: str) -> list[str]:
    """Return the folders of the worktree that stand for those of the user's checkout from which the
    interpreter imports.
    """
    asked = subprocess.run(
        [python, "-c", IMPORTED_FROM],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:  # the capture says what is wrong with it
        return []
    prefix, places = json.loads(asked.stdout.splitlines()[-1])
    own = [
        Path(place).relative_to(repository.top)
        for place in places
        if Path(place).is_relative_to(repository.top) and not Path(place).is_relative_to(prefix)
    ]
    return [str(worktree.path / place) for place in dict.fromkeys(own)]


@contextlib.contextmanager
def _moved_to(folder: Path, places: Sequence[str]) -> Iterator[None]:
    """Run the block in a folder, with ``places`` first on Python's path."""
    here, before = Path.cwd(), os.environ.get("PYTHONPATH")
    os.chdir(folder)
    if places:
        os.environ["PYTHONPATH"] = os.pathsep.join([*places, *filter(None, [before])])
    try:
        yield
    finally:
        os.chdir(here)
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before


def _check_files(repository: Repository, worktree: Worktree, tried: StepOutcome) -> None:
    """Raise UsageError where the program ran files of the user's checkout in place of the
    commit's.
    """
    for name in tried.source_files:
        file = Path(name)
        if not file.is_relative_to(repository.top) or file.is_relative_to(worktree.path):
            continue
        same = worktree.path / file.relative_to(repository.top)
        if same.exists() and not same.is_symlink():
            raise UsageError(
                f"the program imports {file} from your checkout and not from the commit, so every "
                "commit would give the same result: name the target as a file, or import it from "
                "the working directory"
            )


@contextlib.contextmanager
def _told_when_stopped(bisect: Bisect) -> Iterator[None]:
    """Say what is known where a signal ends the block."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        search = bisect.search
        if bisect.order and search.last_good is not None:
            good, bad = bisect.steps[search.last_good].name, bisect.steps[search.first_bad].name
            narration().print_message(
                f"stopped; continue with: fx-explorer bisect --good {good[:10]} "
                f"--bad {bad[:10]} -- {' '.join(bisect.condition.words)}"
            )
        raise


# over releases of torch


def bisect_interpreters(condition: Condition, pythons: Sequence[str], keep: Path | None) -> Bisect:
    """Find the interpreter since which the condition fails. Raises UsageError where the first is
    not good or the last not bad.
    """
    bisect = Bisect(condition, [SearchStep(python) for python in pythons], Search(len(pythons)))
    root = Path.cwd()

    def try_python(step: SearchStep, session: Path) -> StepOutcome:
        condition.with_arguments(python=step.name)
        return condition.try_step(root, session, narration(), None)

    with temporary_folder() as folder:
        _drive(bisect, try_python, folder, keep)
    return bisect
