"""These tests check that a program's log records are received whatever it does with its loggers,
and that the program is unchanged by it.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEARD = """
import json, logging, sys
from fx_explorer.instruments.fixes.measure.printed_output import PrintedLines, printed
written = PrintedLines()
log = logging.getLogger("train")
with printed(written):
    exec(sys.argv[1])
print(json.dumps([written.lines, written.errors]))
"""

CONFIGURED = "logging.basicConfig(level=logging.INFO, format='%(message)s', stream=sys.stdout)"


def heard(program: str) -> tuple[str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", HEARD, program], capture_output=True, text=True, check=True
    )
    return ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (f"{CONFIGURED}; log.info('one %s', 1)", '["INFO train: one 1", "one 1"]'),
        ("log.warning('unconfigured')", '["WARNING train: unconfigured"]'),
        ("log.info('below the level')", "[]"),
        (
            "log.propagate = False; log.addHandler(logging.NullHandler()); log.error('kept')",
            '["ERROR train: kept"]',
        ),
        ("logging.getLogger('torch._dynamo').error('of torch')", "[]"),
        (
            "log.addHandler(logging.NullHandler()); log.error('%d', 'x')",
            """["ERROR train: '%d' cannot be written: TypeError"]""",
        ),
    ],
)
def test_messages_are_heard(program: str, lines: str) -> None:
    stdout, _ = heard(program)
    assert stdout.splitlines()[-1].startswith(f"[{lines}, ")


def test_a_line_on_stderr_that_has_a_message_in_it_is_another_line() -> None:
    stdout, _ = heard(
        f"{CONFIGURED.replace('stdout', 'stderr')}; log.info('step'); print('step', 3, file=sys.stderr)"
    )
    assert stdout.splitlines()[-1] == '[["INFO train: step"], ["step 3"]]'


def test_a_program_writes_as_it_does_without_us() -> None:
    stdout, _ = heard(f"{CONFIGURED}; log.info('told')")
    assert stdout.splitlines()[0] == "told", "basicConfig does nothing where there is a handler"
    _, stderr = heard("log.warning('unconfigured')")
    assert stderr.splitlines() == ["unconfigured"], "without any handler Python writes to stderr"
