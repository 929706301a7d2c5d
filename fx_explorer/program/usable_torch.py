"""This module imports torch, and explains the problem if it is broken, partly installed, or of an
unknown release.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import importlib.util
import locale
import sys
import warnings
from collections.abc import Iterator

from fx_explorer.errors import UsageError, WorkerError
from fx_explorer.program.explaining import one_line
from fx_explorer.program.process_ending import Cancelled

SUPPORTED = "fx-explorer works with torch 2.11 to 2.15"

ADVICE = "Install torch there again, or choose another interpreter that has it with --python."


class BrokenTorch(WorkerError):
    """Raised when this torch cannot be recorded."""


class TorchEnded(BaseException):
    """Raised when torch's import called ``sys.exit``. It is no Exception, since the program would
    not have gone on either.
    """


def import_torch() -> None:
    """Import torch. Raises BrokenTorch when this interpreter has no torch that works."""
    try:
        import torch
    except (Cancelled, KeyboardInterrupt):
        raise
    except BaseException as error:  # a broken torch raises anything, SystemExit included
        raise BrokenTorch(
            f"torch cannot be imported by {sys.executable}: {_describe_error(error)}. {ADVICE}"
        ) from error
    if not hasattr(torch, "__version__"):
        raise BrokenTorch(
            f"torch is only partly installed: {place_of_torch()} has no __init__.py. {ADVICE}"
        )


@contextlib.contextmanager
def no_end_of_process() -> Iterator[None]:
    """Import torch inside the block, on behalf of a program. Raises TorchEnded when the import
    calls ``sys.exit``.
    """
    try:
        yield
    except SystemExit as leaving:
        text = (
            f"torch called sys.exit({leaving.code!r}) while {sys.executable} imported it from "
            f"{place_of_torch()}"
        )
        raise TorchEnded(f"{text}: this installation of torch does not work. {ADVICE}") from leaving


COMPILER = (
    "torch._inductor.compile_fx",
    "torch._dynamo.backends.inductor",
    "torch._inductor.choices",
    "torch.export._trace",
    "sympy.physics.units",
    "sympy.tensor.tensor",
)
"""Modules that the first compilation of a process imports."""


def import_compiler() -> None:
    """Import what the first compilation imports. Raises BrokenTorch when that fails."""
    with importing_the_compiler():
        for module in COMPILER:
            importlib.import_module(module)


@contextlib.contextmanager
def importing_the_compiler() -> Iterator[None]:
    """Import torch's compiler, and our code that depends on it, inside the block. Raises
    BrokenTorch when that fails.
    """
    try:
        with _in_utf8(), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # with PYTHONWARNINGS=error torch's own old code could not be imported
            yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        version = getattr(sys.modules.get("torch"), "__version__", "of no version")
        raise BrokenTorch(
            f"torch {version} of {place_of_torch()} cannot be recorded: {_describe_error(error)}. "
            f"{SUPPORTED}. {ADVICE}"
        ) from error


def describe_locale() -> str:
    """Return the effect of an ASCII locale on torch, as a sentence; empty for any other locale."""
    if not _is_ascii():
        return ""
    return (
        "the locale's encoding is ASCII, and torch's compiler reads some of its files with it: "
        "without fx-explorer, this program raises UnicodeDecodeError when it uses Inductor. "
        "fx-explorer imports the compiler in UTF-8; set PYTHONUTF8=1 for the program"
    )


def _is_ascii() -> bool:
    return codecs.lookup(locale.getpreferredencoding(False)).name == "ascii"


@contextlib.contextmanager
def _in_utf8() -> Iterator[None]:
    """Replace an ASCII locale inside the block (torch/_inductor/utils.py, ``load_template``); the
    program's is back afterwards.
    """
    before = locale.setlocale(locale.LC_CTYPE)
    if _is_ascii():
        with contextlib.suppress(
            locale.Error
        ):  # a system without it: the import says what is wrong
            locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_CTYPE, before)


def place_of_torch() -> str:
    """Return the directory from which torch was, or would be, imported; else ``nowhere`` or ``an
    unknown place``.
    """
    known = sys.modules.get("torch")
    try:
        spec = known.__spec__ if known else importlib.util.find_spec("torch")
    except (ImportError, ValueError, AttributeError):
        return "an unknown place"
    if spec:
        return ", ".join(spec.submodule_search_locations or ())
    return "nowhere"


def _describe_error(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"
    return one_line(error)
