"""The worker process, started by path: ``python …/worker/worker.py NOTICES COMMANDS [JOB [BEGUN]]``
(two inherited pipe descriptors, and one of a file with what was read of the commands already).

It runs in the interpreter of the user's choice, which need not have fx-explorer installed: the
package is loaded from where this file lies, and nothing is added to ``sys.path``. This file only
opens the door; ``job.py``, or the module of the package that JOB names, does the work. It keeps to
syntax that old interpreters read, so that even they get an explanation instead of a SyntaxError.
"""

from __future__ import annotations

import importlib
import os
import sys

MINIMUM = (3, 10)


def load_package() -> None:
    """Put the fx_explorer of this file into ``sys.modules``, whatever else is installed under that
    name.
    """
    import importlib.util

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = importlib.util.spec_from_file_location(
        "fx_explorer", os.path.join(root, "__init__.py"), submodule_search_locations=[root]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["fx_explorer"] = package
    spec.loader.exec_module(package)


def refuse(notices: int, message: str) -> None:
    """Tell the client why this interpreter cannot be used. The message has the form of
    model/protocol.py, which it could not import.
    """
    import json

    outcome = {"kind": "not_started", "message": message, "exit_code": 4}
    os.write(notices, json.dumps({"kind": "outcome", "text": json.dumps(outcome)}).encode() + b"\n")
    os._exit(4)


def start() -> None:
    notices, commands = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (notices, commands):
        os.set_inheritable(
            descriptor, False
        )  # or a process the user's program starts would hold our pipes open
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[
            0
        ]  # Python puts a script's directory first; ours holds names like "target" and "kernels"
    if sys.version_info < MINIMUM:
        found = "{}.{}".format(*sys.version_info)
        refuse(
            notices,
            f"{sys.executable} is Python {found}; fx-explorer needs 3.10 or newer. Choose "
            "another one with --python.",
        )
    load_package()
    job = sys.argv[3] if len(sys.argv) > 3 else "worker.job"
    from fx_explorer.stack_room import with_room

    arguments: list[int | bytes] = [notices, commands]
    if len(sys.argv) > 4:
        with os.fdopen(int(sys.argv[4]), "rb") as begun:
            arguments.append(begun.read())
    with_room(importlib.import_module(f"fx_explorer.{job}").main)(*arguments)


if __name__ == "__main__":
    start()
