"""This module finds the calls of compiled graphs in a trace, with the work of each in its order;
the work outside of them; and the session's graph for each call, by the calls that its generated
code makes.

torch marks calls of graphs with events of its own (``event_names.py``). The forward and backward of
AOTAutograd's autograd function have the same sequence number.

``align`` finds the call of generated code for each piece of work, given both lists in order. The
same code runs in the same order, so that mostly both lists are equal. They differ where the
profiled process generated other code (a choice that torch makes by measuring), or where some work
belongs to no call. Then names that occur once in both lists are anchors, as in a patience diff.
Between anchors, a name that occurs equally often in both is matched in order; for any other name,
each piece of work is divided among the calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.profile.event_names import (
    BACKWARD,
    FORWARD,
    GraphMarks,
    compilation_of,
    is_generated,
    is_region,
    key_of_call,
    key_of_event,
    kind_of_marks,
    without_number,
)
from fx_explorer.model import ProfileJoin
from fx_explorer.readers.kineto_trace import NONE, CpuThread, Trace
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import calls_in_order


@dataclass(frozen=True, slots=True)
class CallName:
    """A name for matching: of something that ran, or of a call in the generated code."""

    key: str
    is_library: bool
    """Whether it is a library call."""
    is_nameless: bool = False
    """Whether it ran under the name of a library's own kernel, as in a replayed CUDA graph. Then
    only its position tells the operator.
    """


@dataclass(frozen=True, slots=True)
class Matched:
    """The calls that may have done a piece of work, by position: one call, or several that share
    its time.
    """

    calls: tuple[int, ...]
    how: ProfileJoin


def align(ran: Sequence[CallName], calls: Sequence[CallName]) -> dict[int, Matched]:
    """Return position in ``ran`` → the calls that match it. Work without a matching call is left
    out.
    """
    if [named.key for named in ran] == [named.key for named in calls]:
        return {at: Matched((at,), "order") for at in range(len(ran))}
    found: dict[int, Matched] = {}
    keys = (
        [without_number(named.key) for named in ran],
        [without_number(named.key) for named in calls],
    )
    for left in _by_keys(*keys, _Part(range(len(ran)), range(len(calls))), found):
        _by_place(ran, calls, left, found)
    return {at: _as_known(ran[at], calls, matched) for at, matched in found.items()}


def _as_known(ran: CallName, calls: Sequence[CallName], matched: Matched) -> Matched:
    """Return the match, which says for one generated kernel whether its whole name is the same."""
    call = calls[matched.calls[0]]
    is_same = ran.key == call.key or ran.is_nameless
    if matched.how == "shared" or is_same:
        return matched
    return Matched(matched.calls, "similar")


@dataclass(frozen=True, slots=True)
class _Part:
    """Positions in the list of work and in the list of calls between which matches are sought. Both
    ascend.
    """

    ran: Sequence[int]
    calls: Sequence[int]


def _by_keys(
    ran: Sequence[str], calls: Sequence[str], whole: _Part, found: dict[int, Matched]
) -> list[_Part]:
    """Match calls by keys that are unique on both sides, and return the parts that stay unmatched
    between them.
    """
    todo, left = [whole], []
    while todo:
        part = _trimmed(ran, calls, todo.pop(), found)
        if not part.ran or not part.calls:
            continue
        anchors = _anchors(ran, calls, part)
        if not anchors:
            left.append(_by_counts(ran, calls, part, found))
            continue
        ran_from = calls_from = 0
        for ran_at, call_at in [*anchors, (len(part.ran), len(part.calls))]:
            todo.append(_Part(part.ran[ran_from:ran_at], part.calls[calls_from:call_at]))
            if ran_at < len(part.ran):
                found[part.ran[ran_at]] = Matched((part.calls[call_at],), "order")
            ran_from, calls_from = ran_at + 1, call_at + 1
    return [part for part in left if part.ran and part.calls]


def _trimmed(
    ran: Sequence[str], calls: Sequence[str], part: _Part, found: dict[int, Matched]
) -> _Part:
    """Match equal entries at both ends of a part, and return the rest."""
    first, last_ran, last_call = 0, len(part.ran), len(part.calls)
    while first < min(last_ran, last_call) and ran[part.ran[first]] == calls[part.calls[first]]:
        found[part.ran[first]] = Matched((part.calls[first],), "order")
        first += 1
    while (
        min(last_ran, last_call) > first
        and ran[part.ran[last_ran - 1]] == calls[part.calls[last_call - 1]]
    ):
        last_ran, last_call = last_ran - 1, last_call - 1
        found[part.ran[last_ran]] = Matched((part.calls[last_call],), "order")
    return _Part(part.ran[first:last_ran], part.calls[first:last_call])


def _anchors(ran: Sequence[str], calls: Sequence[str], part: _Part) -> list[tuple[int, int]]:
    """Return the places, in the part, of keys that occur once in each of both: as many as possible
    that are in the same order.
    """
    in_ran, in_calls = Counter(ran[at] for at in part.ran), Counter(calls[at] for at in part.calls)
    place = {calls[at]: place for place, at in enumerate(part.calls) if in_calls[calls[at]] == 1}
    pairs = []
    for ran_place, at in enumerate(part.ran):
        key = ran[at]
        if in_ran[key] == 1 and key in place:
            pairs.append((ran_place, place[key]))
    return _longest_ascending(pairs)


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest list of pairs whose second numbers ascend, too."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for at, (_, value) in enumerate(pairs):
        length = bisect_left(ends, value)
        previous = at_end[length - 1] if length else -1
        before.append(previous)
        ends[length : length + 1] = [value]
        at_end[length : length + 1] = [at]
    longest = []
    at = at_end[-1] if at_end else -1
    while at != -1:
        longest.append(pairs[at])
        at = before[at]
    return longest[::-1]


def _by_counts(
    ran: Sequence[str], calls: Sequence[str], part: _Part, found: dict[int, Matched]
) -> _Part:
    """Match equal keys of a part in their order, and return the rest: keys that only one of the
    lists has.
    """
    by_key: dict[str, list[int]] = {}
    for at in part.calls:
        by_key.setdefault(calls[at], []).append(at)
    counts = Counter(ran[at] for at in part.ran)
    taken: Counter[str] = Counter()
    for at in part.ran:
        key = ran[at]
        there = by_key.get(key)
        if not there:
            continue
        if len(there) == 1:
            found[at] = Matched((there[0],), "order")
        elif counts[key] == len(there):
            found[at] = Matched((there[taken[key]],), "order")
        else:
            found[at] = Matched(tuple(there), "shared")
        taken[key] += 1
    left_calls = [at for at in part.calls if not taken[calls[at]]]
    return _Part([at for at in part.ran if ran[at] not in by_key], left_calls)


def _by_place(
    ran: Sequence[CallName], calls: Sequence[CallName], part: _Part, matches: dict[int, Matched]
) -> None:
    """Match library kernels that have no operator's name to the library calls at their place."""
    libraries = tuple(at for at in part.calls if calls[at].is_library)
    if not libraries:
        return
    how: ProfileJoin = "order" if len(libraries) == 1 else "shared"
    for at in part.ran:
        if ran[at].is_nameless:
            matches[at] = Matched(libraries, how)


US = 1e-6


@dataclass(slots=True)
class Ran:
    """The work of one statement of generated code: usually one kernel of the GPU, several for some
    library calls.
    """

    named: CallName
    work: list[int] = field(default_factory=list)
    """Indices of the trace's GPU work."""
    seconds: float = 0.0
    operator: tuple[int, int] = (NONE, NONE)
    """(thread, event) of the operator; an event of -1 where no operator enclosed the launch."""


@dataclass(slots=True)
class ProfiledGraphCall:
    """One call of a compiled graph."""

    compilation: str
    """Name of the compiled function, ``0/1``; empty where the trace does not say."""
    is_backward: bool
    ran: list[Ran] = field(default_factory=list)
    by_operator: dict[tuple[int, int], Ran] = field(default_factory=dict)
    """(thread, event) of an operator → its work."""

    @property
    def seconds(self) -> float:
        return sum(ran.seconds for ran in self.ran)


@dataclass(slots=True)
class Calls:
    """The calls of compiled graphs in a trace, and the work outside of them."""

    graphs: list[ProfiledGraphCall]
    """Calls of graphs that the trace marks, and one call for generated kernels outside any mark."""
    outside: list[tuple[int, int, int]]
    """(GPU work, thread, event) of other work, with the operator that launched it; -1 and -1 where
    the trace does not say.
    """
    has_marks: bool = True
    """Whether the trace marks calls of compiled graphs at all."""
    unmarked: ProfiledGraphCall | None = None
    """The kernels that run outside all marked calls, and are known as generated code only by their
    names.
    """


class LaunchFinder:
    """Finds the operator that launched each work of the GPU."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._by_external: dict[int, tuple[int, int]] | None = None

    def of(self, work: int) -> tuple[int, int]:
        """Return (thread, innermost event) of the launch; (-1, -1) where it is not known, and an
        event of -1 outside of all events.
        """
        correlation = self._trace.gpu.correlation[work]
        if correlation in self._trace.unclear:
            return NONE, NONE
        launch = self._trace.launches.get(correlation)
        if launch:
            thread, start = launch
            return thread, self._trace.threads[thread].at(start)
        external = self._trace.gpu.external[work]
        if external != NONE:
            return self._of_external(external)
        return (NONE, NONE)

    def time_of(self, work: int) -> float:
        """Return the time of the launch; the start of the work where it is not known."""
        correlation = self._trace.gpu.correlation[work]
        if correlation in self._trace.unclear:
            launch = None
        else:
            launch = self._trace.launches.get(correlation)
        if launch:
            return launch[1]
        return self._trace.gpu.starts[work]

    def in_order(self) -> list[int]:
        """Return all work of GPUs in the order of the launches. Work of one launch, the replay of a
        CUDA graph, is in the order of its capture, else in the order in which it ran: on several
        streams neither that nor the file's order is the order of the code.
        """
        gpu = self._trace.gpu
        return sorted(
            range(len(gpu)),
            key=lambda work: (self._launched(work), gpu.graph_node[work], gpu.starts[work]),
        )

    def _launched(self, work: int) -> float:
        """Return when it was launched; without its launch, when the operator began that launched
        it.
        """
        if self._trace.gpu.correlation[work] not in self._trace.launches:
            thread, event = self.of(work)
            if event != NONE:
                return self._trace.threads[thread].starts[event]
        return self.time_of(work)

    def _of_external(self, external: int) -> tuple[int, int]:
        if self._by_external is None:
            self._by_external = {}
            for thread, cpu_thread in enumerate(self._trace.threads):
                for event, number in enumerate(cpu_thread.external):
                    if number != NONE:
                        first = self._by_external.setdefault(number, (thread, event))
                        if (
                            first[0] != NONE
                            and self._trace.threads[first[0]].process != cpu_thread.process
                        ):
                            self._by_external[number] = (
                                NONE,
                                NONE,
                            )  # each process counts for itself
        return self._by_external.get(external, (NONE, NONE))


def graph_calls(trace: Trace) -> Calls:
    """Find the calls of compiled graphs, and assign the work to them. In a trace without a GPU, the
    operators themselves are the work.
    """
    finding = _Finding(trace)
    if not len(trace.gpu):
        return finding.of_operators()
    return finding.of_gpu()


class _Finding:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        numbers = {name: number for number, name in enumerate(trace.names.all)}
        self._is_region = {number for name, number in numbers.items() if is_region(name)}
        self._kind = kind_of_marks(trace.names.all)
        self._marks: dict[int, GraphMarks] = {}
        self._forward, self._backward = numbers.get(FORWARD, NONE), numbers.get(BACKWARD, NONE)
        self._by_sequence = self._regions_by_sequence()
        self._found: dict[tuple[int, int], ProfiledGraphCall] = {}

    def _regions_by_sequence(self) -> dict[tuple[int, int], str]:
        """Return (process, sequence number) → name of the compiled function whose backward has that
        number, too; empty where functions on several threads have the same, since each thread
        counts for itself.
        """
        regions: dict[tuple[int, int], str] = {}
        if self._forward == NONE:
            return regions
        for thread in self._trace.threads:
            for number, name in self._regions_of(thread):
                key = (thread.process, number)
                regions[key] = name if regions.get(key, name) == name else ""
        return regions

    def _regions_of(self, thread: CpuThread) -> Iterable[tuple[int, str]]:
        """Return the sequence numbers of the calls of compiled functions on a thread. If a call has
        no backward, the next may have the same number: the last one counts.
        """
        found: dict[int, str] = {}
        for event, number in enumerate(thread.names):
            if number == self._forward and thread.sequence[event] != NONE:
                around = next(
                    (
                        outer
                        for outer in thread.outwards(event)
                        if thread.names[outer] in self._is_region
                    ),
                    NONE,
                )
                if around != NONE:
                    name = self._trace.name(thread.names[around])
                    found[thread.sequence[event]] = compilation_of(name)
        return found.items()

    def of_gpu(self) -> Calls:
        launches = LaunchFinder(self._trace)
        outside = []
        unmarked = ProfiledGraphCall("", False)
        for work in launches.in_order():
            thread, event = launches.of(work)
            top, graph = self._graph_around(thread, event)
            name = self._trace.name(self._trace.gpu.names[work])
            if graph != NONE:
                ran = self._ran(self._call(thread, graph), thread, top, name)
            elif is_generated(name):
                ran = self._ran(unmarked, NONE, NONE, name)
            else:
                outside.append((work, thread, event))
                continue
            ran.work.append(work)
            ran.seconds += self._trace.gpu.durations[work] * US
        graphs = [*self._found.values()]
        if not unmarked.ran:
            return Calls(graphs, outside, bool(self._kind))
        return Calls([*graphs, unmarked], outside, bool(self._kind), unmarked)

    def of_operators(self) -> Calls:
        """Use the outermost operators within each graph as its work."""
        for thread, events in enumerate(self._trace.threads):
            for event in range(len(events.starts)):
                top, graph = self._graph_around(thread, event)
                if graph == event:
                    self._call(thread, event)
                elif graph != NONE and top == event:
                    ran = self._ran(self._call(thread, graph), thread, event, "")
                    ran.seconds += (events.ends[event] - events.starts[event]) * US
        return Calls([*self._found.values()], [], bool(self._kind))

    def _graph_around(self, thread: int, event: int) -> tuple[int, int]:
        """Return the outermost operator within the graph, and the graph; -1 where there is none."""
        if thread == NONE or event == NONE:
            return NONE, NONE
        marks = self._marks.get(thread)
        if marks is None:
            events = self._trace.threads[thread]
            marks = self._marks[thread] = GraphMarks(self._trace, events, self._kind)
        return marks.top[event], marks.graph[event]

    def _call(self, thread: int, graph: int) -> ProfiledGraphCall:
        call = self._found.get((thread, graph))
        if call is None:
            call = self._found[(thread, graph)] = ProfiledGraphCall(*self._place(thread, graph))
        return call

    def _place(self, thread: int, graph: int) -> tuple[str, bool]:
        """Return the name of the compiled function, and whether it is its backward."""
        events = self._trace.threads[thread]
        for outer in events.outwards(graph):
            if events.names[outer] == self._backward:
                return self._by_sequence.get((events.process, events.sequence[outer]), ""), True
            if events.names[outer] in self._is_region:
                return compilation_of(self._trace.name(events.names[outer])), False
        return "", False

    def _ran(self, call: ProfiledGraphCall, thread: int, top: int, kernel: str) -> Ran:
        """Return the Ran to which a piece of work belongs: one for all work that an operator
        launched, and one for each piece of work without an operator.
        """
        operator = (thread, top)
        if top != NONE and (known := call.by_operator.get(operator)):
            return known
        if top != NONE:
            name = self._trace.name(self._trace.threads[thread].names[top])
        else:
            name = kernel
        is_own = "::" not in name if top != NONE else name.startswith("triton_")
        named = CallName(key_of_event(name), not is_own, is_nameless=top == NONE and not is_own)
        ran = call.by_operator[operator] = Ran(named, operator=operator)
        call.ran.append(ran)
        return ran


def around(trace: Trace, thread: int, event: int) -> Iterator[str]:
    """Yield the names of an event and of all around it, the innermost first."""
    if thread != NONE:
        for outer in trace.threads[thread].outwards(event):
            yield trace.name(trace.threads[thread].names[outer])


# Which graph of the session a call is of.


BY_NAME = 0.6
"""Smallest share of equal generated kernels for a match when the trace names the compiled function:
every program has a ``0/0``, and the code of another process may differ in some kernels.
"""

BY_CODE = 0.9
"""Smallest share of equal generated kernels for a match when only the code identifies the graph."""


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The generated code of one graph."""

    compilation: str
    """Name of the compiled function as torch writes it, ``0/1``. After ``torch._dynamo.reset()``
    torch reuses names, and DistributedDataParallel has several graphs under one name: these are
    distinguished by their code.
    """
    is_backward: bool
    calls: tuple[CallName, ...]
    ids: tuple[tuple[int, int], ...]
    """(Kernel, KernelCall) of each call."""


def compiled_graphs(reader: SessionReader) -> list[CompiledGraph]:
    """Return the graphs of the variants in use, each with its calls in the order of its code."""
    used = in_use(reader)
    calls_of: dict[tuple[str, bool, int], list[tuple[CallName, tuple[int, int]]]] = {}
    for row in calls_in_order(reader):
        if used is None or row.kernel in used.kernels:
            named = CallName(key_of_call(row.name), row.language == "extern")
            graph = (row.compilation, row.direction == "backward", row.output_code)
            calls_of.setdefault(graph, []).append((named, (row.kernel, row.call)))
    graphs = []
    for (name, is_backward, _), calls in calls_of.items():
        names = tuple(named for named, _ in calls)
        ids = tuple(ids for _, ids in calls)
        graphs.append(CompiledGraph(name.partition("#")[0], is_backward, names, ids))
    return graphs


def graphs_of(call: ProfiledGraphCall, graphs: Sequence[CompiledGraph]) -> list[CompiledGraph]:
    """Return the graph of a call in a trace; several with the same code if nothing distinguishes
    them; none for a call of another program.
    """
    there = [graph for graph in graphs if graph.is_backward == call.is_backward]
    named, fit = _most_alike(
        call, [graph for graph in there if graph.compilation == call.compilation]
    )
    if fit >= BY_CODE:
        return named
    found, fit_of_any = _most_alike(
        call, there
    )  # in another process the same name may be another function's
    if fit_of_any >= BY_CODE:
        return found
    return named if fit >= BY_NAME else []


def _most_alike(
    call: ProfiledGraphCall, graphs: Sequence[CompiledGraph]
) -> tuple[list[CompiledGraph], float]:
    """Return the graphs that are most like a call, and how much."""
    fits = [(alike(call, graph), graph) for graph in graphs]
    best = max((fit for fit, _ in fits), default=0.0)
    return [graph for fit, graph in fits if fit == best], best


def alike(call: ProfiledGraphCall, graph: CompiledGraph) -> float:
    """Return the fraction, from 0 to 1, of generated kernels that both have, by name without
    number. If neither has any, 1 for the same library calls in the same order, else 0.
    """
    ran = Counter(without_number(ran.named.key) for ran in call.ran if not ran.named.is_library)
    calls = Counter(without_number(named.key) for named in graph.calls if not named.is_library)
    most = max(ran.total(), calls.total())
    if most:
        return (ran & calls).total() / most
    is_same = bool(call.ran) and [ran.named.key for ran in call.ran] == [
        named.key for named in graph.calls
    ]
    return float(is_same)
