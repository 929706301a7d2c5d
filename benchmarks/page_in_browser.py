"""How large the HTML page of a session is, and how fast it answers in Chromium.

    python -m benchmarks.page_in_browser [SESSION.fxs ...]

Without a session it takes a training step of 48 Llama-like layers (``benchmarks/synthetic.py``).
Each interaction is timed in the page, from the event to the next painted frame, several times; the
worst is printed beside its budget. Needs playwright and a Chromium on the PATH.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.synthetic import llama_session
from fx_explorer.report.page.page import html_page
from fx_explorer.session import SessionReader

SIZE_BUDGET_MB, FIRST_VIEW_BUDGET_MS, ANSWER_BUDGET_MS = 15, 2_000, 100

ROUNDS = 5

FIRST_VIEW = """
new Promise((resolve) => {
  const check = () => {
    if (document.querySelector(".pane .row")) requestAnimationFrame(() => resolve(performance.now()));
    else setTimeout(check, 5);
  };
  check();
})
"""

TIMED = """
async ([action, round]) => {
  const actions = {
    "follow a link": () => {
      const rows = [...document.querySelectorAll('.pane[data-pane="source"] .row')];
      const linked = rows.filter((row) => row.textContent.trim().length > 12);
      linked[(7 * round) % linked.length].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    },
    "point at a line": () => {
      const rows = [...document.querySelectorAll('.pane[data-pane="graph"] .row')];
      rows[(5 * round) % rows.length].dispatchEvent(new MouseEvent("mousemove", { bubbles: true }));
    },
    "move a line": () => {
      const lines = document.querySelector('.pane[data-pane="kernel"] .lines');
      lines.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
    },
    "open or close a module": () => {
      const boxes = [...document.querySelectorAll("#drawing .box")];
      boxes[(3 * round) % boxes.length].dispatchEvent(new MouseEvent("click", { bubbles: true }));
    },
    "search the drawing": () => {
      const search = document.querySelector("#drawing input");
      search.value = ["mul", "attention", "layers.3", "f32", "add"][round % 5];
      search.dispatchEvent(new Event("input", { bubbles: true }));
    },
    "turn to another graph": () => {
      const select = document.querySelector("#drawing select.graph");
      select.value = String(round % select.options.length);
      select.dispatchEvent(new Event("change"));
    },
    "colour by something else": () => {
      const select = document.querySelector("#drawing select.way");
      select.value = select.options[round % select.options.length].value;
      select.dispatchEvent(new Event("change"));
    },
    "unfold a table": () => {
      const tables = [...document.querySelectorAll("section > details:not(.finding)")];
      const table = tables[round % tables.length];
      table.open = !table.open;
      table.getBoundingClientRect();
    },
  };
  const began = performance.now();
  actions[action]();
  document.body.getBoundingClientRect();
  const script = performance.now() - began;
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
  return [script, performance.now() - began];
}
"""

ACTIONS = (
    "follow a link",
    "point at a line",
    "move a line",
    "open or close a module",
    "search the drawing",
    "turn to another graph",
    "colour by something else",
    "unfold a table",
)


def measure(session: Path, browser: Any) -> None:
    began = time.process_time()
    with SessionReader(session) as reader:
        text = html_page(reader, session.read_bytes())
    made_s = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(text)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"file://{file}", wait_until="commit")
        first_view_ms = page.evaluate(FIRST_VIEW)
        page.wait_for_selector("#drawing svg")
        page.wait_for_selector(".row.linked")
        size_mb = file.stat().st_size / 1e6
        print(f"{session.name}: made in {made_s:.1f} s of CPU")
        print_row("size", f"{size_mb:.1f} MB", size_mb / SIZE_BUDGET_MB)
        print_row("first view", f"{first_view_ms:.0f} ms", first_view_ms / FIRST_VIEW_BUDGET_MS)
        for action in ACTIONS:
            times = [page.evaluate(TIMED, [action, number]) for number in range(ROUNDS)]
            script_ms, painted_ms = (max(column) for column in zip(*times, strict=True))
            shown = f"{painted_ms:.0f} ms ({script_ms:.0f} ms of script and layout)"
            print_row(action, shown, painted_ms / ANSWER_BUDGET_MS)
        print(f"  {'requests':<26}{len(requests) - 1:>6}")
        page.close()


def print_row(what: str, value: str, of_budget: float) -> None:
    print(f"  {what:<26}{value:<44}{of_budget:6.2f} of the budget")


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium is on the PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        sessions = [Path(name) for name in sys.argv[1:]]
        if not sessions:
            sessions = [Path(folder) / "llama48.fxs"]
            llama_session(sessions[0], 48)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for session in sessions:
            measure(session, browser)
        browser.close()


if __name__ == "__main__":
    main()
