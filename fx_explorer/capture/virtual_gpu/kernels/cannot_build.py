"""Why a kernel is not built, in words for the user."""

from __future__ import annotations


class CannotBuild(Exception):
    """Raised for a fault of the kernel or of what compiles it. The message is for the user."""


def why(error: BaseException) -> str:
    """Return the part of the message that the user can use. Triton's command for repeating the
    compile names files that are gone.
    """
    text = str(error).partition("Repro command:")[0].strip()
    if isinstance(error, SyntaxError):
        text = f"line {error.lineno}: {error.msg}" + (
            f"\n{error.text.rstrip()}" if error.text else ""
        )
    if error.__cause__ is not None and str(error.__cause__) not in text:
        cause = f"\n{error.__cause__}"
    else:
        cause = ""
    name = type(error).__name__
    return (text + cause) if "ptxas" in text else f"{name}: {text}{cause}"
