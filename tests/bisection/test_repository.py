"""These tests check commits out of repositories that are made here, and see that nothing is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fx_explorer.bisection.repository import (
    CannotCheckOut,
    Hunk,
    Repository,
    parsed_diff,
)
from fx_explorer.errors import UsageError
from tests.bisection.planted import commit, git, new_repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "project")


def state(repository: Path) -> tuple[str, ...]:
    """Return what a bisect must leave as it is."""
    questions = (
        ("status", "--porcelain"), ("rev-parse", "HEAD"), ("worktree", "list"), ("branch", "-a"),
        ("stash", "list"), ("for-each-ref",),
    )  # fmt: skip
    entries = sorted(str(path) for path in (repository / ".git").iterdir())
    return (*(git(repository, *words) for words in questions), *entries)


def test_commits_are_checked_out_beside_the_users_checkout(project: Path, tmp_path: Path) -> None:
    first = commit(project, "first", a_py="1\n")
    second = commit(project, "second", a_py="2\n", b_py="2\n")
    (project / "a.py").write_text("3, not committed\n")
    before = state(project)
    repository = Repository.of(project)
    with repository.worktree(tmp_path, ()) as worktree:
        worktree.check_out(second)
        assert (worktree.path / "a.py").read_text() == "2\n"
        (worktree.path / "__pycache__").mkdir()
        worktree.check_out(first)
        assert [path.name for path in worktree.path.iterdir() if path.name != ".git"] == ["a.py"]
        assert (worktree.path / "a.py").read_text() == "1\n"
    assert not worktree.path.exists()
    assert state(project) == before
    assert (project / "a.py").read_text() == "3, not committed\n"


def test_nothing_is_left_where_the_block_raises(project: Path, tmp_path: Path) -> None:
    first = commit(project, "first", a_py="1\n")
    before = state(project)

    def stop() -> None:
        with Repository.of(project).worktree(tmp_path, ()) as worktree:
            worktree.check_out(first)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert state(project) == before


def test_worktrees_of_others_stay(project: Path, tmp_path: Path) -> None:
    first = commit(project, "first", a_py="1\n")
    git(project, "worktree", "add", "-q", str(tmp_path / "theirs"), "-b", "theirs")
    gone = tmp_path / "on a disk that is not there now"
    git(project, "worktree", "add", "-q", str(gone), "-b", "gone")
    gone.rename(tmp_path / "moved")
    left = tmp_path / "fx-explorer-run-killed" / "checkout"
    git(project, "worktree", "add", "-q", "--detach", str(left))
    left.rename(tmp_path / "removed by the next start")
    with Repository.of(project).worktree(tmp_path, ()) as worktree:
        worktree.check_out(first)
    listed = git(project, "worktree", "list")
    assert str(tmp_path / "theirs") in listed
    assert str(gone) in listed
    assert str(left) not in listed


def test_no_hook_of_the_repository_runs(project: Path, tmp_path: Path) -> None:
    first = commit(project, "first", a_py="1\n")
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with Repository.of(project).worktree(tmp_path / "work", ()) as worktree:
        worktree.check_out(first)
    assert not (tmp_path / "ran").exists()


def test_variables_of_a_hook_do_not_lead_to_the_users_index(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit(project, "first", a_py="1\n")
    commit(project, "second", a_py="2\n")
    monkeypatch.setenv("GIT_INDEX_FILE", str(project / ".git" / "index"))
    monkeypatch.setenv("GIT_DIR", str(project / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(project))
    with Repository.of(project).worktree(tmp_path / "work", ()) as worktree:
        worktree.check_out(first)
        assert (worktree.path / "a.py").read_text() == "1\n"
    assert (project / "a.py").read_text() == "2\n"


def test_submodules_are_checked_out_from_the_users_repository(
    project: Path, tmp_path: Path
) -> None:
    library = new_repository(tmp_path / "library")
    old = commit(library, "old", lib_py="old\n")
    commit(library, "new", lib_py="new\n")
    git(project, "submodule", "--quiet", "add", str(library), "lib")
    git(project / "lib", "checkout", "-q", old)
    first = commit(project, "with the old library")
    git(project / "lib", "checkout", "-q", "main")
    second = commit(project, "with the new library")
    library.rename(tmp_path / "no longer there")
    with Repository.of(project).worktree(tmp_path / "work", ()) as worktree:
        worktree.check_out(second)
        assert (worktree.path / "lib" / "lib.py").read_text() == "new\n"
        worktree.check_out(first)
        assert (worktree.path / "lib" / "lib.py").read_text() == "old\n"
    assert git(project, "status", "--porcelain") == ""


def test_a_submodule_that_the_user_does_not_have_is_told(project: Path, tmp_path: Path) -> None:
    library = new_repository(tmp_path / "library")
    commit(library, "old", lib_py="old\n")
    git(project, "submodule", "--quiet", "add", str(library), "lib")
    first = commit(project, "with a library")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    with Repository.of(clone).worktree(tmp_path / "work", ()) as worktree:
        with pytest.raises(CannotCheckOut, match="its submodule lib is not in your repository"):
            worktree.check_out(first)


def test_a_filter_that_fails_is_told_in_the_words_of_git(project: Path, tmp_path: Path) -> None:
    """So does Git LFS where it cannot get the content of a file."""
    first = commit(project, "first", a_py="1\n")
    bad = commit(project, "large", weights_bin="pointer\n", _gitattributes="*.bin filter=large\n")
    git(project, "config", "filter.large.smudge", "echo no such object >&2; false")
    git(project, "config", "filter.large.required", "true")
    with Repository.of(project).worktree(tmp_path / "work", ()) as worktree:
        with pytest.raises(CannotCheckOut, match=r"smudge filter|external filter"):
            worktree.check_out(bad)
        worktree.check_out(first)
        assert (worktree.path / "a.py").exists()
    assert str(tmp_path / "work") not in git(project, "worktree", "list")


def test_untracked_files_are_linked_and_stay(project: Path, tmp_path: Path) -> None:
    first = commit(project, "first", a_py="1\n")
    (project / "data").mkdir()
    (project / "data" / "x").write_text("content")
    with Repository.of(project).worktree(tmp_path / "work", ["data"]) as worktree:
        for _ in range(2):
            worktree.check_out(first)
            assert (worktree.path / "data" / "x").read_text() == "content"
    assert (project / "data" / "x").read_text() == "content"


def test_the_commits_between_are_those_of_first_parents(project: Path) -> None:
    good = commit(project, "good", a_py="1\n")
    git(project, "checkout", "-q", "-b", "branch")
    commit(project, "in the branch", b_py="2\n")
    git(project, "checkout", "-q", "main")
    second = commit(project, "second", a_py="2\n")
    git(project, "merge", "-q", "--no-ff", "-m", "merged", "branch")
    bad = git(project, "rev-parse", "HEAD")
    repository = Repository.of(project)
    assert repository.steps(good, bad) == [good, second, bad]
    assert len(repository.describe(bad).parents) == 2
    assert repository.describe(second).subject == "second"


def test_of_branches_that_diverged_the_common_commit_is_the_first(project: Path) -> None:
    common = commit(project, "common", a_py="1\n")
    git(project, "checkout", "-q", "-b", "release")
    good = commit(project, "release", b_py="1\n")
    git(project, "checkout", "-q", "main")
    bad = commit(project, "bad", a_py="2\n")
    assert Repository.of(project).steps(good, bad) == [common, bad]


def test_what_is_no_range_is_told(project: Path, tmp_path: Path) -> None:
    old = commit(project, "old", a_py="1\n")
    new = commit(project, "new", a_py="2\n")
    repository = Repository.of(project)
    with pytest.raises(UsageError, match="no such commit"):
        repository.commit("nothing", "--good")
    with pytest.raises(UsageError, match="no such commit"):
        repository.commit("--help", "--good")
    with pytest.raises(UsageError, match="--good is newer than --bad"):
        repository.steps(new, old)
    with pytest.raises(UsageError, match="the same commit"):
        repository.steps(new, new)
    git(project, "checkout", "-q", "--orphan", "other")
    unrelated = commit(project, "unrelated")
    with pytest.raises(UsageError, match="no commit in common"):
        repository.steps(old, unrelated)
    with pytest.raises(UsageError, match="is not in a checkout of a git repository"):
        Repository.of(tmp_path)
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(project), str(bare))
    with pytest.raises(UsageError, match="is not in a checkout of a git repository"):
        Repository.of(bare)


def test_a_shallow_clone_says_how_to_get_the_rest(project: Path, tmp_path: Path) -> None:
    old = commit(project, "old", a_py="1\n")
    commit(project, "new", a_py="2\n")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", str(tmp_path / "clone"))
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        Repository.of(tmp_path / "clone").commit(old, "--good")


def test_without_git_it_is_told(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UsageError, match="needs git"):
        Repository.of(project)


def test_a_diff_has_its_lines_at_the_numbers_of_the_new_file(project: Path) -> None:
    old = commit(project, "old", a_py="one\ntwo\nthree\n", b_py="gone\n")
    (project / "b.py").unlink()
    new = commit(project, "new", a_py="zero\none\n-- two\nthree\n", **{"with space_py": "x\n"})
    hunks = Repository.of(project).changed_lines(old, new)
    assert Hunk("a.py", 1, (), ("zero",)) in hunks
    assert Hunk("a.py", 3, ("two",), ("-- two",)) in hunks
    assert Hunk("b.py", 0, ("gone",), ()) in hunks
    assert Hunk("with space.py", 1, (), ("x",)) in hunks
    assert Hunk("a.py", 3, ("two",), ("-- two",)).covers("a.py", 3)


def test_lines_that_look_like_headings_of_a_diff_are_content() -> None:
    text = "diff --git a.py a.py\n--- a.py\n+++ a.py\n@@ -1 +1,2 @@\n--- x\n+++ y\n++ z\n"
    assert parsed_diff(text) == [Hunk("a.py", 1, ("-- x",), ("++ y", "+ z"))]
