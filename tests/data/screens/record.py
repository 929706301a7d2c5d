"""Records the sessions that the kept screens are drawn from. They name no folder of the machine that they are recorded on."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import torch

import fx_explorer
from fx_explorer.capture.option_catalogue import list_settings
from fx_explorer.model import CONSOLE
from fx_explorer.session import SessionWriter

HERE = Path(__file__).parent
NEUTRAL = Path("/tmp/fx-explorer-screens")
"""Where the program and this file lie while it is recorded, and so what the sessions say of them."""


def main() -> None:
    """Copy the needed files to the folder for recording, and record there."""
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    NEUTRAL.mkdir()
    for name in ("net.py", "record.py"):
        shutil.copy(HERE / name, NEUTRAL)
    (NEUTRAL / "python").symlink_to(sys.prefix)
    (NEUTRAL / "packages").mkdir()
    (NEUTRAL / "packages" / "fx_explorer").symlink_to(Path(fx_explorer.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(NEUTRAL / "packages")}
    command = [NEUTRAL / "python" / "bin" / "python", "record.py", str(HERE)]
    subprocess.run(command, cwd=NEUTRAL, env=environment, check=True)
    shutil.rmtree(NEUTRAL)


def record(folder: Path) -> None:
    from net import Net

    torch.manual_seed(0)
    session = NEUTRAL / "net.fxs"
    with fx_explorer.Stages(Net(), torch.randn(8, 32), session=session) as stages:
        stages.dynamo()
        keep(session, folder / "paused.fxs.gz", is_over=False)
        stages.inductor()
        stages.again("joint", settings={"functorch.activation_memory_budget": 0.2})
    keep(session, folder / "whole.fxs.gz", is_over=True)


def keep(session: Path, packed: Path, *, is_over: bool) -> None:
    """Keep a copy of a session as it is now. Stages records the end of the model when it has run; a
    program that waits after Dynamo has no such record.
    """
    copy = session.with_name(f"copy-of-{packed.stem}")
    source, target = sqlite3.connect(session), sqlite3.connect(copy)
    with source, target:
        source.backup(target)
        ((environment,),) = target.execute("SELECT value FROM meta WHERE key = 'environment'")
        plain = json.dumps({**json.loads(environment), "platform": "Linux"})
        target.execute("UPDATE meta SET value = ? WHERE key = 'environment'", (plain,))
        if not is_over:
            target.execute("DELETE FROM meta WHERE key = 'outcome'")
    source.close()
    target.close()
    with SessionWriter(copy) as writer:
        writer.add_all(list_settings(only=CONSOLE))  # as a capture that nobody steps through does
    packed.write_bytes(gzip.compress(copy.read_bytes(), mtime=0))


if __name__ == "__main__":
    record(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
