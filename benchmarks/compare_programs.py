"""Does recording change what torch.compile does to a program? Compares a bare process with captures of the same programs.

    python -m benchmarks.compare_programs [inspect] [build] [paused] [--only NAME …]

More than a hundred odd programs (tests/capture/undisturbed), each way of capturing them in a process of its own. The bare
process builds and runs its kernels. Compared are torch's counters, how often each frame was compiled, the generated code, and
the results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, cold_environment
from tests.capture.undisturbed.test_undisturbed import CACHES_OFF, differences

WAYS = ("inspect", "build", "paused")

INSPECTED_OTHERWISE = {
    "compiled_autograd_enabled": "segments run eagerly, so compiled autograd compiles the backward of eager autograd",
    "compiled_autograd_and_hooks": "the same",
    "custom_function_with_compiled_autograd": "the same",
    "compiled_autograd_config": "the same",
    "compiled_autograd_everywhere": "the same",
}
"""What differs while inspecting, and is said in the session."""


def run(how: str, names: list[str], folder: Path) -> dict[str, dict[str, Any]]:
    (folder / how).mkdir()
    command = [sys.executable, "-m", "tests.capture.undisturbed.run", how, str(folder / how), *names]
    environment = {**cold_environment(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor-{how}")}
    ended = subprocess.run(command, env={**environment, **CACHES_OFF}, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    return {found["program"]: found for found in map(json.loads, ended.stdout.splitlines())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ways", nargs="*", default=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    arguments = parser.parse_args()
    is_different = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = run("bare", arguments.only, folder)
        for how in arguments.ways:
            ours = run(how, arguments.only, folder)
            found = {name: different for name in bare if (different := differences(bare[name], ours[name]))}
            explained = {} if how == "build" else {name: why for name, why in INSPECTED_OTHERWISE.items() if name in found}
            print(f"{how:8} {len(bare) - len(found)} of {len(bare)} equal, {len(explained)} differ as the session says")
            for program, different in found.items():
                if program not in explained:
                    is_different = True
                    print(f"  {program}", *different, sep="\n    ")
    raise SystemExit(1 if is_different else 0)


if __name__ == "__main__":
    main()
