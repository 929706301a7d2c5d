"""What the user called a target: a package is worked on as a session that was made of it, and told
by its own name.
"""

from __future__ import annotations

import argparse


def shown_name(arguments: argparse.Namespace, target: str = "") -> str:
    """Return the name of ``target``, or of the command's only one."""
    target = target or str(arguments.target)
    return str(getattr(arguments, "packages", {}).get(target, target))


def is_of_package(arguments: argparse.Namespace) -> bool:
    """Return whether the command's target is a session that was made of a package."""
    return arguments.target in getattr(arguments, "packages", {})
