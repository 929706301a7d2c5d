"""What a process that has imported torch saves: ``python -m benchmarks.forked_workers``.

Trials of fixes and the contenders of a bench run as forks of it and as fresh processes, in turns,
and the ratio of their times is printed. The first capture has no such process yet: the time until
its first graph or graph break is known stands beside a bare process that imports and traces.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.common import ROOT
from fx_explorer import model
from fx_explorer.analysis.whole_session import SessionFigures, session_figures
from fx_explorer.client.capture import temporary_capture
from fx_explorer.client.forked_workers import ForkServer, fork_server
from fx_explorer.instruments.bench.bench_run import Bench
from fx_explorer.instruments.bench.plan import BenchPlan, begin_session
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import proposals
from fx_explorer.instruments.fixes.trial import try_fix
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import TrialWorker, recapture

SAMPLES = ROOT / "sample_models"
BROKEN = CaptureRequest(str(SAMPLES / "graph_breaks.py"), "")
BARE_SAMPLE = """
import runpy, torch
names = runpy.run_path({file!r})
inputs = names["example_inputs"]
inputs = inputs if isinstance(inputs, tuple) else (inputs,)
torch.compile(names["model"], backend="eager")(*inputs)
"""
BARE_GPT2 = """
import torch
from benchmarks.models import build, inputs
torch.compile(build("gpt2"), backend="eager")(**inputs("gpt2"))
"""


def _first_findings() -> dict[str, tuple[CaptureRequest, str]]:
    """Return name → the request of a capture, and the program of a bare process."""
    programs = {}
    for name in ("graph_breaks", "convnet"):
        file = str(SAMPLES / f"{name}.py")
        programs[name] = CaptureRequest(file, ""), BARE_SAMPLE.format(file=file)
    file = str(ROOT / "benchmarks" / "models.py")
    request = CaptureRequest(file, "", call="build('gpt2')", inputs="inputs('gpt2')")
    programs["gpt2"] = request, BARE_GPT2
    return programs


async def _until_first_finding(request: CaptureRequest) -> float:
    """Return the seconds from the start of a fresh capture until its session has a graph or a
    graph break.
    """
    began = time.monotonic()
    async with temporary_capture(request, sys.executable, None) as capture:
        async for _ in capture.notices():
            if capture.session_path.exists() and _has_finding(capture.session_path):
                took_s = time.monotonic() - began
                await capture.cancel()
                return took_s
    raise RuntimeError(f"{request.target}: nothing was captured")


def _has_finding(session: Path) -> bool:
    with SessionReader(session) as reader:
        return reader.has(model.Graph) or reader.has(model.GraphBreak)


def _bare_s(program: str) -> float:
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.monotonic() - began


async def _fixes_of_broken(server: ForkServer) -> tuple[SessionFigures, list[Fix]]:
    """Return the figures of a capture with graph breaks, and its fixes."""

    def look(reader: SessionReader) -> tuple[SessionFigures, list[Fix]]:
        fixes = []
        for graph_break in distinct_breaks(reader):
            fixes += proposals(reader, graph_break)
        return session_figures(reader), fixes

    return (await recapture(BROKEN, TrialWorker(fork_server=server), look)).found


async def _refused_s(server: ForkServer | None) -> float:
    """Return the seconds until a change of the program that raises is known to do so."""
    text = Path(BROKEN.target).read_text().replace("x = torch.relu(x)", "raise ValueError(x)")
    request = replace(BROKEN, overlay={BROKEN.target: text})
    tried = await recapture(request, TrialWorker(fork_server=server), lambda _: None)
    assert tried.outcome.kind == "raised", tried.outcome
    return tried.took_s


async def _bench_s(server: ForkServer | None, folder: Path) -> float:
    """Return the seconds of a bench of six contenders, with as few rounds as it makes."""
    plan = BenchPlan(
        CaptureRequest(str(SAMPLES / "mlp.py"), ""),
        modes=("", "reduce-overhead", "max-autotune-no-cudagraphs"),
        budget_s=1.0,
    )
    began = time.monotonic()
    with SessionWriter(folder / f"{began}.fxs") as writer:
        begin_session(writer, plan)
        await Bench(plan, writer, sys.executable, lambda _: None, server).run()
    return time.monotonic() - began


Run = Callable[[ForkServer | None], Awaitable[float]]


async def _print_ratio(name: str, run: Run, server: ForkServer, rounds: int) -> None:
    """Run forked and fresh in turns, and print the median of the ratios."""
    ratios, forked, fresh = [], [], []
    for _ in range(rounds):
        forked.append(await run(server))
        fresh.append(await run(None))
        ratios.append(forked[-1] / fresh[-1])
    _print_row(name, statistics.median(forked), statistics.median(fresh), ratios)


def _print_row(name: str, one_s: float, other_s: float, ratios: list[float]) -> None:
    print(
        f"{name:<52} {one_s:7.2f} s {other_s:7.2f} s   {statistics.median(ratios):.2f}", flush=True
    )


async def _measure(arguments: argparse.Namespace) -> None:
    print(f"{'':<52} {'first':>9} {'bare':>9}   ratio")
    for name, (request, program) in _first_findings().items():
        if "first" not in arguments.what:
            break
        first, bare = [], []
        for _ in range(arguments.rounds):
            first.append(await _until_first_finding(request))
            bare.append(await asyncio.to_thread(_bare_s, program))
        ratios = [one / other for one, other in zip(first, bare, strict=True)]
        _print_row(name, statistics.median(first), statistics.median(bare), ratios)
    print(f"{'':<52} {'forked':>9} {'fresh':>9}   ratio")
    server = fork_server()
    try:
        before, fixes = await _fixes_of_broken(server)
        if "refused" in arguments.what:
            await _print_ratio(
                "refused: a change that raises", _refused_s, server, arguments.rounds
            )
        for fix in fixes[: arguments.fixes] if "fixes" in arguments.what else []:

            async def run(server: ForkServer | None, fix: Fix = fix) -> float:
                worker = TrialWorker(fork_server=server)
                trial = await try_fix(BROKEN, fix, before, worker=worker)
                run.verdict = trial.verdict  # type: ignore[attr-defined]
                return trial.took_s

            await run(server)
            name = f"{run.verdict}: {fix.title}"[:50]  # type: ignore[attr-defined]
            await _print_ratio(name, run, server, arguments.rounds)
        if "bench" in arguments.what:
            with tempfile.TemporaryDirectory() as folder:
                await _print_ratio(
                    "bench of six contenders",
                    lambda server: _bench_s(server, Path(folder)),
                    server,
                    arguments.rounds,
                )
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["first", "refused", "fixes", "bench"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fixes", type=int, default=6, help="number of fixes that are tried")
    asyncio.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
