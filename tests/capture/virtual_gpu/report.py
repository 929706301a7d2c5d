"""This helper prints the lines of the scripts in this directory: ``compiled NAME`` or ``failed
NAME: …``; a failing program does not stop the others.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping

import torch


def run_all(programs: Mapping[str, Callable[[], object]]) -> None:
    warnings.simplefilter("ignore")
    for name, run in programs.items():
        torch._dynamo.reset()
        print(_told(name, run))


def _told(name: str, run: Callable[[], object]) -> str:
    try:
        run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the test is shown it
        traceback.print_exc()
        return f"failed {name}: {type(error).__name__}: {error}".partition("\n")[0]
    return f"compiled {name}"
