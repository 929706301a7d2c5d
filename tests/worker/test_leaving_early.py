"""These tests check whether ``sys.exit`` came at a script's end, for scripts that are really run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fx_explorer.worker.outcomes import left_early

AT_THE_END = {
    "the last statement": "import sys\nsys.exit(0)\n",
    "what main returns": "import sys\ndef main():\n    return 0\nif __name__ == '__main__':\n    sys.exit(main())\n",
    "the end of main": "import sys\ndef main():\n    x = 1\n    sys.exit(0)\nif __name__ == '__main__':\n    main()\n",
    "definitions behind it": "import sys\nsys.exit(0)\ndef f(): pass\nclass C: pass\n",
    "in a with": "import sys, io\nwith io.StringIO() as s:\n    s.write('x')\n    sys.exit(0)\n",
    "behind an error": "import sys\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    sys.exit(0)\n",
    "in a finally": "import sys\ntry:\n    x = 1\nfinally:\n    sys.exit(0)\n",
    "out of an endless loop": "import sys\nn = 0\nwhile True:\n    n += 1\n    if n > 3:\n        sys.exit(0)\n",
    "a library's": "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\nunittest.main(argv=['x'])\n",
    "exit()": "exit(0)\n",
    "a decorated function": "import sys, functools\n@functools.cache\ndef f():\n    sys.exit(0)\nf()\n",
    "a coroutine": "import asyncio, sys\nasync def main():\n    await asyncio.sleep(0)\n    sys.exit(0)\nasyncio.run(main())\n",
    "a match": "import sys\nmatch 3:\n    case 3:\n        sys.exit(0)\n",
}

EARLY = {
    "half way": ("import sys\nsys.exit(0)\nx = 1\n", 2),
    "in an if": ("import sys\nif sys:\n    sys.exit(0)\nx = 1\n", 3),
    "in main": ("import sys\ndef main():\n    sys.exit(0)\n    return 1\nmain()\n", 3),
    "main before more": ("import sys\ndef main():\n    sys.exit(0)\nmain()\nx = 1\n", 4),
    "in a loop": ("import sys\nfor i in range(9):\n    sys.exit(0)\n", 2 + 1),
    "a library's": (
        "import argparse\nargparse.ArgumentParser().parse_args(['--help'])\nx = 1\n",
        2,
    ),
    "in a with": ("import sys, io\nwith io.StringIO():\n    sys.exit(0)\n    x = 1\n", 3),
    "before an else": (
        "import sys\ntry:\n    sys.exit(0)\nexcept ValueError:\n    pass\nelse:\n    x = 1\n",
        3,
    ),
}


def leave(folder: Path, source: str) -> tuple[str, int]:
    script = folder / "script.py"
    script.write_text(source)
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(script), run_name="__main__")
    trace = left.value.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(script):
        trace = trace.tb_next
    return left_early(trace)


@pytest.mark.parametrize("case", AT_THE_END)
def test_a_script_that_leaves_at_its_end_has_ended(case: str, tmp_path: Path) -> None:
    assert leave(tmp_path, AT_THE_END[case]) == ("", 0)


@pytest.mark.parametrize("case", EARLY)
def test_a_script_that_leaves_earlier_is_told_with_its_line(
    case: str, tmp_path: Path, capsys: object
) -> None:
    source, line = EARLY[case]
    assert leave(tmp_path, source) == (str(tmp_path / "script.py"), line)
