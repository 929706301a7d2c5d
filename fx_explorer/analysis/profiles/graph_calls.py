"""The calls of compiled graphs in a trace, with what each ran, in its order; and what ran outside of them.

torch marks them with events of its own: ``Torch-Compiled Region: 0/1`` (``torch/_dynamo/eval_frame.py``),
``## Call CompiledFxGraph … ##`` (``torch/_inductor/output_code.py``), ``CompiledFunction`` and
``CompiledFunctionBackward`` (AOTAutograd's autograd function: both have the same sequence number).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fx_explorer.analysis.profiles.alignment import Named
from fx_explorer.analysis.profiles.names import key_of_event
from fx_explorer.readers.kineto.trace import NONE, CpuThread, Trace

REGION = "Torch-Compiled Region: "
GRAPH = "Call CompiledFxGraph "
FORWARD, BACKWARD = "CompiledFunction", "CompiledFunctionBackward"

US = 1e-6


@dataclass(slots=True)
class Ran:
    """What one statement of generated code ran: mostly one kernel of the GPU, several for some library calls."""

    named: Named
    work: list[int] = field(default_factory=list)
    """Indices of the trace's GPU work."""
    seconds: float = 0.0
    operator: tuple[int, int] = (NONE, NONE)
    """(thread, event) of the operator; an event of -1 where none was around the launch."""


@dataclass(slots=True)
class GraphCall:
    """One call of a compiled graph."""

    compilation: str
    """Name of the compiled function, ``0/1``; empty where the trace does not say."""
    is_backward: bool
    ran: list[Ran] = field(default_factory=list)
    by_operator: dict[tuple[int, int], Ran] = field(default_factory=dict)
    """(thread, event) → what that operator ran."""

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.ran)


@dataclass(slots=True)
class Calls:
    """All of a trace."""

    graphs: list[GraphCall]
    outside: list[tuple[int, int, int]]
    """(GPU work, thread, event): what ran elsewhere, and the operator that launched it; -1 and -1 where the trace
    does not say.
    """


class Launches:
    """Finds the operator that launched each work of the GPU."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._by_external: dict[int, tuple[int, int]] | None = None

    def of(self, work: int) -> tuple[int, int]:
        """Return (thread, innermost event); (-1, -1) where nothing is known, and an event of -1 outside of all."""
        correlation = self._trace.gpu.correlation[work]
        if correlation in self._trace.unclear:
            return NONE, NONE
        launch = self._trace.launches.get(correlation)
        if launch:
            thread, start = launch
            return thread, self._trace.threads[thread].at(start)
        external = self._trace.gpu.external[work]
        return self._of_external(external) if external != NONE else (NONE, NONE)

    def time_of(self, work: int) -> float:
        """Return when it was launched; when it ran where that is not known."""
        correlation = self._trace.gpu.correlation[work]
        launch = (
            None if correlation in self._trace.unclear else self._trace.launches.get(correlation)
        )
        return launch[1] if launch else self._trace.gpu.starts[work]

    def in_order(self) -> list[int]:
        """Return all works of GPUs in the order in which they were launched. Those of one launch, the replay of a CUDA
        graph, come in the order in which they were captured, else in that in which they ran: on several streams neither
        the file's order nor that of running is that of the code.
        """
        gpu = self._trace.gpu
        return sorted(
            range(len(gpu)),
            key=lambda work: (self._launched(work), gpu.graph_node[work], gpu.starts[work]),
        )

    def _launched(self, work: int) -> float:
        """Return when it was launched; without its launch, when the operator began that launched it."""
        if self._trace.gpu.correlation[work] not in self._trace.launches:
            thread, event = self.of(work)
            if event != NONE:
                return self._trace.threads[thread].starts[event]
        return self.time_of(work)

    def _of_external(self, external: int) -> tuple[int, int]:
        if self._by_external is None:
            self._by_external = {}
            for thread, one in enumerate(self._trace.threads):
                for event, number in enumerate(one.external):
                    if number != NONE:
                        first = self._by_external.setdefault(number, (thread, event))
                        if (
                            first[0] != NONE
                            and self._trace.threads[first[0]].process != one.process
                        ):
                            self._by_external[number] = (
                                NONE,
                                NONE,
                            )  # each process counts for itself
        return self._by_external.get(external, (NONE, NONE))


def graph_calls(trace: Trace) -> Calls:
    """Find the calls of compiled graphs, and share what ran out to them. Of a trace without a GPU, the operators
    themselves are what ran.
    """
    finding = _Finding(trace)
    if not len(trace.gpu):
        return finding.of_operators()
    return finding.of_gpu()


class _Finding:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        numbers = {name: number for number, name in enumerate(trace.names.all)}
        self._is_graph = {number for name, number in numbers.items() if GRAPH in name}
        self._is_region = {number for name, number in numbers.items() if name.startswith(REGION)}
        self._forward, self._backward = numbers.get(FORWARD, NONE), numbers.get(BACKWARD, NONE)
        self._by_sequence = self._regions_by_sequence()
        self._found: dict[tuple[int, int], GraphCall] = {}

    def _regions_by_sequence(self) -> dict[tuple[int, int], str]:
        """Return (process, sequence number) → name of the compiled function whose backward has that number, too; empty
        where functions on several threads have the same, since each thread counts for itself.
        """
        found: dict[tuple[int, int], str] = {}
        for thread in self._trace.threads if self._forward != NONE else ():
            for number, name in self._regions_of(thread):
                key = (thread.process, number)
                found[key] = name if found.get(key, name) == name else ""
        return found

    def _regions_of(self, thread: CpuThread) -> Iterable[tuple[int, str]]:
        """Return the sequence numbers of the calls of compiled functions on a thread. Where one has no backward, the next
        may have its number: the last one counts.
        """
        found: dict[int, str] = {}
        for event, name in enumerate(thread.names):
            if name == self._forward and thread.sequence[event] != NONE:
                around = next(
                    (one for one in thread.outwards(event) if thread.names[one] in self._is_region),
                    NONE,
                )
                if around != NONE:
                    found[thread.sequence[event]] = self._trace.name(
                        thread.names[around]
                    ).removeprefix(REGION)
        return found.items()

    def of_gpu(self) -> Calls:
        launches = Launches(self._trace)
        outside = []
        for work in launches.in_order():
            thread, event = launches.of(work)
            top, graph = self._graph_around(thread, event)
            if graph == NONE:
                outside.append((work, thread, event))
                continue
            call = self._call(thread, graph)
            name = self._trace.name(self._trace.gpu.names[work])
            ran = self._ran(call, thread, top, name)
            ran.work.append(work)
            ran.seconds += self._trace.gpu.durations[work] * US
        return Calls([*self._found.values()], outside)

    def of_operators(self) -> Calls:
        """Take the outermost operators within each graph for what ran."""
        for thread, events in enumerate(self._trace.threads):
            for event in range(len(events.starts)):
                if events.names[event] in self._is_graph:
                    self._call(thread, event)
                    continue
                top, graph = self._graph_around(thread, event)
                if graph != NONE and top == event:
                    ran = self._ran(self._call(thread, graph), thread, event, "")
                    ran.seconds += (events.ends[event] - events.starts[event]) * US
        return Calls([*self._found.values()], [])

    def _graph_around(self, thread: int, event: int) -> tuple[int, int]:
        """Return the outermost operator within the graph, and the graph; -1 where there is none. What is noted around
        operators is none: Inductor's own ``graph_0_inductor_wrapper_call`` (``profiler_mark_wrapper_call``) is around all.
        """
        if thread == NONE:
            return NONE, NONE
        top, events = NONE, self._trace.threads[thread]
        for one in events.outwards(event):
            if events.names[one] in self._is_graph:
                return top, one
            top = top if events.annotations[one] else one
        return NONE, NONE

    def _call(self, thread: int, graph: int) -> GraphCall:
        found = self._found.get((thread, graph))
        if found is None:
            found = self._found[(thread, graph)] = GraphCall(*self._place(thread, graph))
        return found

    def _place(self, thread: int, graph: int) -> tuple[str, bool]:
        """Return the name of the compiled function, and whether it is its backward."""
        events = self._trace.threads[thread]
        for one in events.outwards(graph):
            if events.names[one] == self._backward:
                return self._by_sequence.get((events.process, events.sequence[one]), ""), True
            if events.names[one] in self._is_region:
                return self._trace.name(events.names[one]).removeprefix(REGION), False
        return "", False

    def _ran(self, call: GraphCall, thread: int, top: int, kernel: str) -> Ran:
        """Return what this belongs to: work that one operator launched is one, work without an operator by itself."""
        operator = (thread, top)
        if top != NONE and (known := call.by_operator.get(operator)):
            return known
        name = self._trace.name(self._trace.threads[thread].names[top]) if top != NONE else kernel
        is_generated = "::" not in name if top != NONE else name.startswith("triton_")
        named = Named(
            key_of_event(name), not is_generated, is_nameless=top == NONE and not is_generated
        )
        ran = call.by_operator[operator] = Ran(named, operator=operator)
        call.ran.append(ran)
        return ran


def around(trace: Trace, thread: int, event: int) -> Iterator[str]:
    """Yield the names of an event and of all around it, the innermost first."""
    if thread != NONE:
        for one in trace.threads[thread].outwards(event):
            yield trace.name(trace.threads[thread].names[one])
