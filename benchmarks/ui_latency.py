"""From a key to the last byte of what it painted, in the real app with four linked panes of some
20,000 rows at 200×50.

    python -m benchmarks.ui_latency [--profiled] [--folded]

The panes are joint | forward | backward | output code of a synthetic training step of 240 layers.
The cursor walks down the forward graph; every step lights and scrolls the other three. It does so
with the kernels marked in all panes, as they are by default, and without (``p h``); with
``--profiled`` the session has a profile, the panes its times, and the forward graph stands most
expensive first, too. With ``--folded`` the forward graph is folded by module: the cursor walks over
its layers, opens them from the last one up, and turns pages over what is open then.

CPU time until the frame was there is given beside wall time because it is steadier where other
programs run on the machine; "all" is with what the app does behind the frame: it draws the next
page while nobody waits.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.ptybench import Painted, Terminal, memory_mb, percentile
from benchmarks.synthetic import add_times, llama_session

LAYERS = 240
BUDGET_MS = 16
STEPS = (("down", 150), ("up", 60), ("pagedown", 60))
OPENED_LAYERS = 120
FOLDED_PAGES = 10
"""Fewer than the pages of that many open layers."""


def open_four_panes(terminal: Terminal) -> None:
    """By the keys a user would press."""
    terminal.wait_for("captured in")
    for key in ("2", "p", "j"):
        terminal.press(key, quiet_ms=400)
    terminal.press("tab")
    terminal.press("p")
    terminal.press("a", quiet_ms=300)
    terminal.press("output backward", quiet_ms=500)
    terminal.press("enter", quiet_ms=500)
    terminal.press("shift+tab", quiet_ms=500)  # from the new pane to the forward graph beside it


def measure(terminal: Terminal) -> None:
    for key, count in STEPS:
        measure_key(terminal, key, count)


def measure_key(terminal: Terminal, key: str, count: int) -> None:
    """Measure a key that is pressed again and again."""
    if key == "pagedown":
        terminal.press("home", quiet_ms=500)
    for _ in range(5):
        terminal.press(key)
    print(line(key, [terminal.press(key) for _ in range(count)]))


def measure_folded(terminal: Terminal, layers: int) -> None:
    """Measure in the graph of the present pane, folded by module."""
    terminal.press("-", quiet_ms=500)
    terminal.wait_for(f"×{layers}")  # a large graph is folded in the background
    for key in ("home", "enter"):
        terminal.press(key, quiet_ms=1_000)
    print("the forward graph is folded by module")
    measure_key(terminal, "down", min(150, layers - 10))
    measure_key(terminal, "up", min(60, layers - 80))
    terminal.press("end", quiet_ms=500)
    opened = []
    for _ in range(min(OPENED_LAYERS, layers - 1)):
        terminal.press("up")
        opened.append(terminal.press("enter"))
    print(line("enter", opened))
    measure_key(terminal, "pagedown", FOLDED_PAGES)
    terminal.press("-", quiet_ms=2_000)


def line(key: str, painted: list[Painted]) -> str:
    times = [p.last_ms for p in painted if p.last_ms is not None]
    if not times:
        return f"{key:<9} painted nothing"
    cpu = [p.cpu_ms for p in painted]
    missing = len(painted) - len(times)
    verdict = "ok" if percentile(times, 95) <= BUDGET_MS else "OVER"
    if missing:
        verdict += f"   {missing} of {len(painted)} painted nothing"
    return (
        f"{key:<9} p50 {percentile(times, 50):5.1f}  p95 {percentile(times, 95):5.1f} ms   "
        f"CPU p50 {percentile(cpu, 50):5.1f}  p95 {percentile(cpu, 95):5.1f} ms  "
        f"all p95 {percentile([p.cpu_all_ms for p in painted], 95):5.1f} ms   "
        f"{statistics.mean(p.frames for p in painted):.1f} frames  {statistics.mean(p.size_bytes for p in painted):7,.0f} bytes"
        f"   budget p95 {BUDGET_MS} ms  {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--session", type=Path, help="measure on this session instead of a synthetic one"
    )
    parser.add_argument(
        "--profiled",
        action="store_true",
        help="give the synthetic session a profile, whose times the panes show",
    )
    parser.add_argument(
        "--folded", action="store_true", help="measure with a graph folded by module, too"
    )
    parser.add_argument(
        "--layers", type=int, default=LAYERS, help="layers of the synthetic training step"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.session or llama_session(Path(folder) / "llama.fxs", options.layers).path
        if options.profiled and not options.session:
            add_times(path)
        with Terminal([sys.executable, "-m", "fx_explorer", str(path)]) as terminal:
            open_four_panes(terminal)
            print("kernels are marked")
            measure(terminal)
            if options.profiled:
                terminal.press("<", quiet_ms=2_000)
                print("the forward graph is sorted by the times of a profile")
                measure(terminal)
                terminal.press("<", quiet_ms=2_000)
            if options.folded:
                measure_folded(terminal, options.layers)
            for key in ("p", "h", "home"):
                terminal.press(key, quiet_ms=500)
            print("kernels are not marked")
            measure(terminal)
            print(f"memory {memory_mb(terminal.pid):.0f} MB")


if __name__ == "__main__":
    main()
