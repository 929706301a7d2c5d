"""Takes the pictures in docs/images/: the real app on a real capture of a sample, drawn as SVG.

python docs/take_screenshots.py [NAME ...]
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.tui.app import ExplorerApp

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"


@dataclass(frozen=True)
class Picture:
    """One screen: which sample, and the keys that lead there."""

    sample: str
    keys: tuple[str, ...] = ()
    at: str = ""
    """Text of the source line to stand on, with the source pane focused."""
    size: tuple[int, int] = (140, 40)
    gpu: str = ""
    """The virtual GPU to capture for; it needs triton."""


PICTURES = {
    "overview": Picture("graph_breaks"),
    "linked": Picture("transformer", ("2",), at="F.gelu", size=(160, 44)),
    "backward": Picture("transformer", ("2", "p", "b", "slash", *"erf", "enter")),
    "breaks": Picture("graph_breaks", ("4",)),
    "time": Picture("transformer", ("9",)),
    "below": Picture(
        "transformer",
        ("6", "slash", *"gelu", "enter", "escape", "p", "k", "slash", *"erf", "enter", "escape"),
        size=(200, 44),
        gpu="h100",
    ),
    "neighbourhood": Picture(
        "transformer",
        ("2", "tab", "slash", *"rsqrt_1", "enter", "escape", "p", "n"),
        size=(200, 36),
        gpu="h100",
    ),
    "configurations": Picture(
        "transformer",
        ("6", "slash", *"native_layer", "enter", "escape", "v", "c"),
        size=(120, 36),
        gpu="h100",
    ),
}


BUILDING = {("p", "k"), ("v", "c")}
"""Keys that compile a kernel."""


def captured(sample: str, gpu: str, folder: Path) -> Path:
    session = folder / f"{sample}{gpu}.fxs"
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "capture",
        f"sample_models/{sample}.py",
        "-o",
        str(session),
    ]
    subprocess.run([*command, *(["--gpu", gpu] if gpu else [])], cwd=DOCS.parent, check=True)
    return session


def keys_to(picture: Picture) -> list[str]:
    """The picture's keys, and those that bring the cursor of the source pane to its line."""
    keys = list(picture.keys)
    if picture.at:
        source = (DOCS.parent / "sample_models" / f"{picture.sample}.py").read_text().splitlines()
        line = next(number for number, text in enumerate(source) if picture.at in text)
        keys += ["home", *["down"] * line]
    return keys


async def svg_of(session: Path, picture: Picture) -> str:
    app = ExplorerApp(session=session)
    async with app.run_test(size=picture.size) as pilot:
        await settle(pilot)
        before = ""
        for key in keys_to(picture):
            await pilot.press(key)
            if (before, key) in BUILDING:
                await settle(pilot)
            before = key
        await settle(pilot)
        return app.export_screenshot(title="fx-explorer")


async def settle(pilot: object) -> None:
    """Let everything be loaded and drawn."""
    for _ in range(10):
        await pilot.app.workers.wait_for_complete()  # type: ignore[attr-defined]
        await pilot.pause(0.1)  # type: ignore[attr-defined]


def plain(svg: str) -> str:
    """Without Textual's random ids, so that a picture changes only when the screen does."""
    return re.sub(r"terminal-\d+", "terminal-0", svg)


def main(names: list[str]) -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sessions: dict[tuple[str, str], Path] = {}
        for name in names or list(PICTURES):
            picture = PICTURES[name]
            what = picture.sample, picture.gpu
            session = sessions.get(what) or captured(*what, Path(folder))
            sessions[what] = session
            (IMAGES / f"{name}.svg").write_text(plain(asyncio.run(svg_of(session, picture))))


if __name__ == "__main__":
    main(sys.argv[1:])
