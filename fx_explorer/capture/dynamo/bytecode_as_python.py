"""This module writes Dynamo's bytecode as Python source, for reading, with depyf
(https://github.com/thuml/depyf), where that is installed in the interpreter of the program.

depyf decompiles by simulating the stack; it runs nothing of the program's. What it cannot write is
said, and the bytecode is listed as everywhere.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping

MISSING = """\
# The bytecode is not shown as Python: depyf is not installed in the program's interpreter.
#
#     pip install 'fx-explorer[depyf]'
#
# or pip install depyf, and capture again. The bytecode itself is the document "Bytecode after
# Dynamo" (p y).
"""

FAILED = """\
# depyf cannot write this bytecode as Python: {reason}
# Here it is as bytecode.

{listing}
"""

HEADER = """\
# What Python runs in place of {name}: Python source that depyf decompiled from Dynamo's bytecode.
# It is for reading and may be inexact. torch's own bookkeeping around a graph is left out.

"""

TOO_LONG = "it has {count:,} instructions; more than {most:,} would take minutes."

MOST_BYTES = 40_000
"""Maximum size of bytecode that is decompiled: 20,000 instructions."""

_BOOKKEEPING = re.compile(
    r"^ *(?:tmp_\d+ = )?[\w.]*record_pregraph_bytecode_(?:enter|exit)\b.*\n", re.MULTILINE
)
"""Matches torch's own measurement of the time before a graph (torch/_dynamo/utils.py,
``record_pregraph_bytecode_enter``).
"""


def bytecode_as_python(code: types.CodeType, listing: str, resume_names: Mapping[str, str]) -> str:
    """Return the source; where there is none, why not, and the listing."""
    try:
        from depyf.decompiler import decompile
    except ImportError:
        return MISSING
    if len(code.co_code) > MOST_BYTES:
        reason = TOO_LONG.format(count=len(code.co_code) // 2, most=MOST_BYTES // 2)
        return FAILED.format(reason=reason, listing=listing)
    try:
        source = str(decompile(code))
    # depyf raises what it likes for what it does not know.
    except Exception as error:  # noqa: BLE001
        reason = " ".join(str(error).split())[:300]
        return FAILED.format(reason=f"{type(error).__name__}: {reason}", listing=listing)
    return HEADER.format(name=code.co_name) + readable(source, resume_names)


def readable(source: str, resume_names: Mapping[str, str]) -> str:
    """Return decompiled source without torch's bookkeeping, with resume functions by their own
    names.
    """
    source = _BOOKKEEPING.sub("", source)
    for name, resumed in resume_names.items():
        source = re.sub(rf"\b{re.escape(name)}\b", resumed, source)
    return source
