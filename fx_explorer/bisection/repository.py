"""This module looks at the user's git repository, and checks its commits out in a worktree of its
own, in a temporary folder. The user's checkout, index and branches are never touched, and no hook
of the repository runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.folders import IN_USE_PREFIX

QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", "-c", "gc.auto=0")
"""Settings of git for every call: no hook runs, nothing is collected."""


class CannotCheckOut(Exception):
    """git cannot check a commit out; the message is git's."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as people know it."""

    hash: str
    author: str
    date: str
    """``2026-11-02``."""
    subject: str
    parents: tuple[str, ...]

    @property
    def short(self) -> str:
        return self.hash[:10]


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of a file that a commit removed and added, next to each other."""

    file: str
    line: int
    """Line of the first added line, in the new file."""
    removed: tuple[str, ...]
    added: tuple[str, ...]

    def covers(self, file: str, line: int) -> bool:
        return file == self.file and self.line <= line < self.line + max(1, len(self.added))


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository that a folder is in."""

    top: Path
    """The root of the user's checkout."""
    within: Path
    """The working directory, relative to ``top``."""

    @classmethod
    def of(cls, folder: Path) -> Repository:
        """Return the repository of a folder. Raises UsageError where there is none, or no git."""
        asked = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix")
        if asked.returncode:
            raise UsageError(f"{folder} is not in a checkout of a git repository: {_reason(asked)}")
        lines = asked.stdout.splitlines()
        prefix = lines[1] if len(lines) > 1 else ""
        return cls(Path(lines[0]), Path(prefix))

    def commit(self, revision: str, option: str) -> str:
        """Return the hash of a revision. Raises UsageError for one that is unknown."""
        asked = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options",
                          f"{revision}^{{commit}}")  # fmt: skip
        if asked.returncode:
            raise UsageError(
                f"{option} {revision}: this repository has no such commit{self._why()}"
            )
        return asked.stdout.strip()

    def _why(self) -> str:
        if self._ask("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
            return "; it is a shallow clone: git fetch --unshallow gets the rest"
        return ""

    def steps(self, good: str, bad: str) -> list[str]:
        """Return the commits from ``good`` to ``bad``, oldest first, along first parents. Where the
        two have diverged, the first is the commit that both come from.

        Raises UsageError where there is nothing between them.
        """
        if good == bad:
            raise UsageError("--good and --bad are the same commit")
        if not self._ask("merge-base", "--is-ancestor", bad, good).returncode:
            raise UsageError(
                "--good is newer than --bad: bisect looks for the commit that made a condition fail"
            )
        base = self._ask("merge-base", good, bad)
        if base.returncode:
            raise UsageError(f"--good and --bad have no commit in common{self._why()}")
        first = base.stdout.strip()
        listed = self._ask("rev-list", "--first-parent", "--reverse", f"{first}..{bad}")
        return [first, *listed.stdout.split()]

    def describe(self, commit: str) -> Commit:
        shown = self._ask("show", "-s", "--format=%H%x00%an%x00%as%x00%s%x00%P", commit).stdout
        number, author, date, subject, parents = shown.rstrip("\n").split("\0")
        return Commit(number, author, date, subject, tuple(parents.split()))

    def changed_lines(self, before: str, after: str) -> list[Hunk]:
        """Return what differs in the texts of two commits."""
        options = ("--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--no-prefix")
        return parsed_diff(self._ask("diff", *options, before, after).stdout)

    @property
    def is_dirty(self) -> bool:
        """Return whether tracked files of the checkout differ from its commit."""
        return bool(self._ask("status", "--porcelain", "--untracked-files=no").stdout.strip())

    @contextlib.contextmanager
    def worktree(self, folder: Path, linked: Sequence[str]) -> Iterator[Worktree]:
        """Yield a worktree below ``folder``. Nothing of it is left in the repository afterwards."""
        self._forget_removed()
        worktree = Worktree(self, folder / "checkout", tuple(linked))
        try:
            yield worktree
        finally:
            with _without_signals():
                shutil.rmtree(worktree.path, ignore_errors=True)
                self._forget(worktree.path)

    def _forget_removed(self) -> None:
        """Forget worktrees of a bisect that was killed, whose folder is gone."""
        for entry, checkout in self._registered():
            if checkout.parent.name.startswith(IN_USE_PREFIX) and not checkout.exists():
                shutil.rmtree(entry, ignore_errors=True)

    def _forget(self, path: Path) -> None:
        """Remove the entry of one worktree. ``git worktree prune`` would remove those of others,
        too, whose disk is not there now.
        """
        for entry, checkout in self._registered():
            if checkout == path:
                shutil.rmtree(entry, ignore_errors=True)
        folder = self._common / "worktrees"
        with contextlib.suppress(OSError):  # git makes it with the first, and others may be in it
            folder.rmdir()

    def _registered(self) -> Iterator[tuple[Path, Path]]:
        """Yield each registered worktree: its entry in the repository, and its folder."""
        for entry in sorted((self._common / "worktrees").glob("*")):
            with contextlib.suppress(OSError):
                yield entry, Path((entry / "gitdir").read_text().strip()).parent

    @property
    def _common(self) -> Path:
        """Return the folder of the repository that all worktrees share."""
        return (self.top / self._ask("rev-parse", "--git-common-dir").stdout.strip()).resolve()

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _git(self.top, *arguments)


@dataclass(frozen=True, slots=True)
class Worktree:
    """A checkout of one commit after the other, in a folder of its own."""

    repository: Repository
    path: Path
    linked: tuple[str, ...]
    """Untracked files and folders of the user's checkout that each commit is given, too."""

    @property
    def folder(self) -> Path:
        """Return the folder that stands for the user's working directory."""
        return self.path / self.repository.within

    def check_out(self, commit: str) -> None:
        """Check a commit out, without anything that an earlier one left behind. Raises
        CannotCheckOut.
        """
        if (self.path / ".git").exists():
            self._run("clean", "-ffdxq")
            self._run("checkout", "--force", "--detach", "--quiet", commit)
        else:
            top = self.repository.top
            made = _git(top, "worktree", "add", "--force", "--detach", str(self.path), commit)
            if made.returncode:
                raise CannotCheckOut(_reason(made))
        self._check_out_submodules()
        if not self.folder.is_dir():
            raise CannotCheckOut(f"there is no folder {self.repository.within} in it")
        self._link()

    def _check_out_submodules(self) -> None:
        """Check submodules out from what the user's repository has of them: the network is not
        used.
        """
        if not (self.path / ".gitmodules").exists():
            return
        asked = _git(self.path, "config", "--file", ".gitmodules", "--get-regexp", r"\.path$")
        local = ["-c", "protocol.file.allow=always"]
        for line in asked.stdout.splitlines():
            name = line.split(" ")[0].removeprefix("submodule.").removesuffix(".path")
            kept = self.repository._common / "modules" / name
            if not kept.is_dir():
                raise CannotCheckOut(f"its submodule {name} is not in your repository")
            local += ["-c", f"submodule.{name}.url={kept}"]
        self._run(*local, "submodule", "--quiet", "update", "--init", "--force")

    def _link(self) -> None:
        for name in self.linked:
            place = self.path / name
            if not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(self.repository.top / name)

    def _run(self, *arguments: str) -> None:
        ended = _git(self.path, *arguments)
        if ended.returncode:
            raise CannotCheckOut(_reason(ended))


def parsed_diff(text: str) -> list[Hunk]:
    """Return the hunks of a diff that git wrote without context and prefixes."""
    hunks: list[Hunk] = []
    file, line = "", 0
    removed: list[str] = []
    added: list[str] = []

    def end_hunk() -> None:
        if removed or added:
            hunks.append(Hunk(file, line, tuple(removed), tuple(added)))
        removed.clear()
        added.clear()

    is_in_hunk = False
    for row in text.split("\n"):
        if row.startswith("diff --git "):
            end_hunk()
            is_in_hunk = False
        elif not is_in_hunk and row.startswith(("--- ", "+++ ")):
            name = row[4:].rstrip("\t")
            file = file if name == "/dev/null" else name
        elif match := _HUNK.match(row):
            end_hunk()
            is_in_hunk, line = True, int(match[1])
        elif is_in_hunk and row.startswith("-"):
            removed.append(row[1:])
        elif is_in_hunk and row.startswith("+"):
            added.append(row[1:])
    end_hunk()
    return hunks


_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder. Raises UsageError where there is no git."""
    try:
        return subprocess.run(
            ["git", *QUIET, *arguments],
            cwd=folder,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("bisect needs git, which is not installed here") from error


OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")
"""Variables that git sets for a hook, and that name the user's own checkout."""


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    environment = {name: value for name, value in variables.items() if name not in OF_A_HOOK}
    return {**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """Return what git says went wrong, without its progress."""
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    first = (errors or lines or ["git failed without a word"])[0]
    return first.removeprefix("fatal: ").removeprefix("error: ")


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """Let no Ctrl-C interrupt the block; it comes after it."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
