"""A directory as TARGET: whether it holds the logs of a job's ranks."""

from __future__ import annotations

from pathlib import Path


def is_of_ranks(target: str) -> bool:
    """Return whether a target is a directory with logs, or with sessions of ranks; not a package of Python."""
    directory = Path(target)
    if (
        not directory.is_dir()
        or (directory / "__init__.py").exists()
        or (directory / "__main__.py").exists()
    ):
        return False
    from fx_explorer.ranks.found_files import has_logs  # not needed for Python files

    return has_logs(directory)
