"""Does recording change what torch.compile does to a program? Compares a bare process with captures
of the same programs.

    python -m benchmarks.compare_programs [inspect] [build] [paused] [--only NAME …]

More than a hundred odd programs (tests/capture/undisturbed), each way of capturing them in a
process of its own. Compared are torch's counters, how often each frame was compiled, the generated
code, and the results. ``build`` takes long, since both processes build every kernel.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, cold_environment
from tests.capture.undisturbed.test_undisturbed import CACHES_OFF, differences

WAYS = ("inspect", "build", "paused")
BUILT = ("build",)
"""Compared with a bare process that builds and runs its kernels, and compiles a backward when it
runs. The others are compared with one that builds nothing and lowers the backward at once, as an
inspection does and says in its session.
"""

_ASSERTS = {
    "compiled_autograd_and_hooks": "torch cannot lower a backward of compiled autograd at once, and asserts"
}
EXPLAINED = {
    "inspect": _ASSERTS,
    "build": {},
    "paused": {
        **_ASSERTS,
        "mapped": "Inductor fails once the graph no longer waits, which the app says",
    },
}
"""Programs that end otherwise, and why. A bare process that lowers the backward at once ends where
that cannot be lowered; an inspection has a failure in its session and goes on.
"""


def run(
    how: str, names: list[str], folder: Path, *, quick: bool = False
) -> dict[str, dict[str, Any]]:
    into = folder / f"{how}{'-quick' * quick}"
    into.mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.capture.undisturbed.run",
        how,
        str(into),
        *["--quick"] * quick,
        *names,
    ]
    environment = {
        **cold_environment(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor-{into.name}"),
    }
    ended = subprocess.run(
        command,
        env={**environment, **CACHES_OFF},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-2000:]}"
        )
    return {found["program"]: found for found in map(json.loads, ended.stdout.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ways", nargs="*", default=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    arguments = parser.parse_args()
    is_different = False
    bare: dict[bool, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for how in arguments.ways:
            quick, began_s = how not in BUILT, time.monotonic()
            if quick not in bare:
                bare[quick] = run("bare", arguments.only, folder, quick=quick)
            ours = run(how, arguments.only, folder, quick=quick)
            found = {
                name: different
                for name in bare[quick]
                if (different := differences(bare[quick][name], ours[name]))
            }
            explained = found.keys() & EXPLAINED[how].keys()
            is_different |= bool(found.keys() - explained)
            counts = f"{len(ours) - len(found)} of {len(ours)} equal, {len(explained)} explained"
            print(f"{how:8} {counts} ({time.monotonic() - began_s:.0f} s)", flush=True)
            for program in found.keys() - explained:
                print(f"  {program}", *found[program], sep="\n    ", flush=True)
    raise SystemExit(1 if is_different else 0)


if __name__ == "__main__":
    main()
