"""This module runs the comparisons of ``numerics`` one after the other, each in a process of its
own: eager mode and float64, the program as the user compiles it, the stages of the compiler, the
graphs node by node, and what may take the difference away. A budget ends the trials, not the
answer.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fx_explorer.client import session_files
from fx_explorer.client.forked_workers import ForkServer
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench.contender_process import CellFailed, ContenderProcess
from fx_explorer.model import (
    BenchTask,
    CaptureRequest,
    Numerics,
    NumericsFinding,
    NumericsRun,
    NumericsStage,
    NumericsTask,
    NumericsWork,
    RunRole,
)
from fx_explorer.model.numerics import finding_from

JOB = "instruments.numerics.measure.process"

STAGE_BACKENDS: tuple[tuple[str, NumericsStage], ...] = (
    ("eager", "dynamo"),
    ("aot_eager", "aot"),
    ("aot_eager_decomp_partition", "decomposition"),
)
"""Backend of torch's that runs the compiler up to a stage, and the stage that it adds."""


DEFAULT_BUDGET_S = 300.0

Tell = Callable[[str], object]
"""A function that receives messages about what is being done."""


class EagerFailed(Exception):
    """Raised when the program does not run in eager mode, so there is nothing to compare with."""

    def __init__(self, failed: CellFailed) -> None:
        super().__init__(failed.message)
        self.traceback = failed.traceback
        """The program's traceback; empty where its process died or took too long."""


@dataclass(frozen=True)
class NumericsPlan:
    """What is compared, and how long it may take."""

    request: CaptureRequest
    python: str
    timeout_s: float | None = None
    budget_s: float = DEFAULT_BUDGET_S
    minify: Path | None = None
    """Where the smallest program is written; None where none is asked for."""
    bisects: bool = True
    """Whether torch's CompilerBisector is asked."""


@dataclass
class _Learned:
    """What is known so far."""

    target: str = ""
    runs: list[NumericsRun] = field(default_factory=list)
    finding: NumericsFinding | None = None
    remedies: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    problem: str = ""
    smallest: str = ""
    graphs: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def numerics(self) -> Numerics:
        return Numerics(
            self.target,
            tuple(self.runs),
            self.finding,
            tuple(self.remedies),
            self.problem,
            self.smallest,
            self.graphs,
            str(self.facts.get("inputs", "")),
            str(self.facts.get("device", "")),
            str(self.facts.get("torch", "")),
            tuple(self.left_out),
        )


class NumericsDriver:
    """Carries out a plan."""

    def __init__(
        self, plan: NumericsPlan, tell: Tell, fork_server: ForkServer | None = None
    ) -> None:
        self._plan = plan
        self._tell = tell
        self._fork_server = fork_server
        self._began_s = time.monotonic()
        self._folder = Path()
        self._traits: dict[str, bool] = {}
        """What the program's graphs have, as the process says that compared them."""
        self._learned = _Learned(target=Path(plan.request.target).name)

    async def run(self) -> Numerics:
        """Compare, and return what was learned. Raises EagerFailed, UsageError for a target that
        cannot be called, and WorkerError when the interpreter cannot be started.
        """
        folder, lock = session_files.new_capture_directory()
        self._folder = folder
        try:
            await self._compare_all()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
        return self._learned.numerics()

    @property
    def _left_s(self) -> float:
        return self._began_s + self._plan.budget_s - time.monotonic()

    async def _compare_all(self) -> None:
        learned = self._learned
        learned.facts = await self._reference()
        learned.target = str(learned.facts["target"])
        program, answer = await self._compared(self._name, "program", self._plan.request)
        learned.runs.append(program)
        learned.graphs = int(answer.get("graphs", 0))
        if program.state != "measured":
            await self._fails_again(program)
            return
        if not learned.graphs:
            learned.problem = "Nothing was compiled, so there is nothing to compare."
            return
        if not program.differs:
            await self._explain_equal()
            return
        if answer.get("other_path"):
            return  # the answer says so already: it is the program itself
        stage = await self._stage()
        await self._locate(stage)
        await self._try_remedies()
        await self._minify()

    @property
    def _name(self) -> str:
        request = self._plan.request
        sizes = "" if request.dynamic is None else f"dynamic={request.dynamic}"
        return " ".join(filter(None, (request.backend, request.mode, sizes)))

    async def _reference(self) -> dict[str, Any]:
        try:
            return await self._done("reference", self._plan.request, is_compiled=False)
        except CellFailed as failed:
            if failed.is_usage:
                raise UsageError(failed.message) from failed
            raise EagerFailed(failed) from failed

    async def _fails_again(self, program: NumericsRun) -> None:
        """Say whether a compiled program that fails does so in the same way again."""
        again, _ = await self._compared(self._name, "program", self._plan.request)
        if again.state == "measured":
            self._learned.problem = (
                "It fails differently each time: compiled a second time, it ran to its end."
            )
        elif again.message != program.message:
            self._learned.problem = (
                f"It fails differently each time: compiled a second time, {again.message}"
            )

    async def _explain_equal(self) -> None:
        """Say what is behind results that agree: other random numbers, or values that are not
        finite.
        """
        facts = self._learned.facts
        if self._plan.request.backend != "inductor" or self._left_s <= 0:
            return
        if facts.get("is_random"):
            await self._name_random_operator()
        elif facts.get("is_not_finite"):
            finding = await self._located("locate")
            if finding is not None and finding.births:
                self._learned.finding = NumericsFinding("", births=finding.births)

    async def _name_random_operator(self) -> None:
        try:
            answer = await self._done("random", self._plan.request)
        except CellFailed as failed:
            self._learned.left_out.append(f"Random operators are not known: {failed.message}")
            return
        for operator in answer["random"][:1]:
            self._learned.finding = NumericsFinding(
                "random",
                node=str(operator["name"]),
                operation=str(operator["operation"]),
                file=str(operator["file"]),
                line=int(operator["line"]),
                code=str(operator["code"]),
            )

    async def _stage(self) -> NumericsStage:
        """Return the first stage of the compiler that changes the results."""
        request = self._plan.request
        for backend, stage in STAGE_BACKENDS:
            if backend == request.backend:
                return stage
            plain = replace(request, backend=backend, mode="", options={})
            run, _ = await self._compared(backend, "stage", plain)
            self._learned.runs.append(run)
            if run.differs:
                return stage
        return "code"

    async def _locate(self, stage: NumericsStage) -> None:
        learned = self._learned
        finding = None
        if stage == "decomposition":
            finding = await self._located("decompositions")
        elif stage == "aot":
            finding = await self._located("writes")
        elif stage == "code" and self._plan.request.backend == "inductor":
            finding = await self._located("locate")
        if finding is None:
            finding = NumericsFinding(stage)
        elif not finding.stage:
            finding = replace(finding, stage=stage)
        learned.finding = finding

    async def _located(self, work: NumericsWork) -> NumericsFinding | None:
        """Return the finding of a process; None where it found nothing, or failed."""
        try:
            answer = await self._done(work, self._plan.request)
        except CellFailed as failed:
            self._learned.left_out.append(f"The operators could not be compared: {failed.message}")
            return None
        found = answer.get("finding")
        self._traits = answer.get("traits", {})
        self._learned.left_out += dict.fromkeys(map(str, answer.get("not_compared", ())))
        return finding_from(found) if found else None

    async def _try_remedies(self) -> None:
        request = self._plan.request
        if request.backend != "inductor":
            return
        settings: dict[str, dict[str, object]] = {}
        if self._traits.get("has_narrow"):
            settings["emulate_precision_casts"] = {"inductor.emulate_precision_casts": True}
        if self._traits.get("has_convolution"):
            settings["layout_optimization=False"] = {"inductor.layout_optimization": False}
        for name, changed in settings.items():
            if self._is_spent(f"{self._name} with {name}"):
                continue
            changed_request = replace(request, settings={**request.settings, **changed})
            run, _ = await self._compared(f"{self._name} with {name}", "remedy", changed_request)
            self._learned.runs.append(run)
        if self._plan.bisects and not self._is_spent("torch's CompilerBisector"):
            await self._bisect()

    async def _bisect(self) -> None:
        try:
            answer = await self._done("bisect", self._plan.request, limit_s=max(self._left_s, 30.0))
        except CellFailed as failed:
            why = f"failed: {failed.message}"
            if failed.state == "timed_out":
                why = f"was not finished within the budget of {self._plan.budget_s:g} s (--budget)."
            self._learned.left_out.append(f"torch's CompilerBisector {why}")
            return
        self._learned.remedies.append(str(answer["bisected"]))

    async def _minify(self) -> None:
        finding, path = self._learned.finding, self._plan.minify
        if path is None:
            return
        if finding is None or not finding.node or finding.stage != "code":
            self._learned.smallest = (
                "No smallest program was written: this needs an operator of the generated code."
            )
            return
        for with_program in (False, True):
            smallest = await self._smallest(finding, path, with_program)
            if smallest:
                self._learned.smallest = smallest
                return
        self._learned.smallest = (
            "No smallest program was written: none of the tried programs reproduces the difference."
        )

    async def _smallest(self, finding: NumericsFinding, path: Path, with_program: bool) -> str:
        """Write the smallest program, and return a sentence on it where it still differs; else an
        empty text.
        """
        try:
            answer = await self._done(
                "minify",
                self._plan.request,
                node=finding.node,
                graph=finding.graph_position,
                file=str(path),
                with_program=with_program,
            )
        except CellFailed as failed:
            self._learned.left_out.append(f"The smallest program failed: {failed.message}")
            return ""
        if not answer["smallest"]:
            return ""
        written = CaptureRequest(
            target=str(path), session="", train=False, build=True, trusts_target=True,
            backend=self._plan.request.backend, settings=self._plan.request.settings,
            dynamic=self._plan.request.dynamic,
        )  # fmt: skip
        plan = replace(self._plan, request=written, minify=None)
        other = NumericsDriver(plan, self._tell, self._fork_server)
        if not await other.still_differs():
            return ""
        return f"{answer['smallest']} It still differs (tried): fx-explorer numerics {path}"

    async def still_differs(self) -> bool:
        """Return whether the plan's program differs when it is compiled; nothing else is tried."""
        folder, lock = session_files.new_capture_directory()
        self._folder = folder
        try:
            await self._reference()
            run, _ = await self._compared(self._name, "program", self._plan.request)
        except (EagerFailed, UsageError):
            return False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
        return run.differs

    def _is_spent(self, what: str) -> bool:
        """Return whether the budget is spent, and note what is left out by it."""
        if self._left_s > 0:
            return False
        self._learned.left_out.append(
            f"Not tried: {what}; the budget of {self._plan.budget_s:g} s is spent (--budget)."
        )
        return True

    async def _compared(
        self, name: str, role: RunRole, request: CaptureRequest
    ) -> tuple[NumericsRun, dict[str, Any]]:
        """Run the program in one way, and return how its results compare, and the whole answer."""
        self._tell(f"{name}: starting")
        try:
            answer = await self._done("compare", request)
        except CellFailed as failed:
            if failed.is_usage and role == "program":
                raise UsageError(failed.message) from failed
            return NumericsRun(name, role, failed.state, failed.message), {}
        run = NumericsRun(
            name,
            role,
            agreement=answer["agreement"],
            words=str(answer["agreement_words"]),
            where=str(answer.get("where", "")),
            place=str(answer.get("place", "")),
            largest=float(answer.get("largest_difference", 0.0)),
            error=float(answer.get("error", 0.0)),
            eager_error=float(answer.get("reference_error", 0.0)),
            is_repeatable=bool(answer.get("is_repeatable", True)),
        )
        return run, answer

    async def _done(
        self,
        work: NumericsWork,
        request: CaptureRequest,
        *,
        is_compiled: bool = True,
        limit_s: float | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Have a process do one task, and return its answer. Raises CellFailed without one."""
        bench_task = BenchTask(request, is_compiled, reference=str(self._folder / "reference.pt"))
        task = NumericsTask(work, bench_task, **more)
        timeouts = [limit for limit in (self._plan.timeout_s, limit_s) if limit is not None]
        starting = ContenderProcess.started(
            task,
            self._folder,
            self._plan.python,
            min(timeouts, default=None),
            lambda doing: self._tell(doing),
            self._fork_server,
            JOB,
        )
        async with starting as process:
            news = await process.answer()
        return news.cell
