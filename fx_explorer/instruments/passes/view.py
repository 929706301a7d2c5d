"""View v t: Inductor's passes over each graph, and the nodes that each made, changed, removed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.documents import GRAPH_TITLES, Place, document_of, place_of_node
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, listed, plural, seconds
from fx_explorer.drawing.view_table import (
    Detail,
    TableColumn,
    TableRow,
    Tree,
    ViewTable,
    folded_to_fit,
)
from fx_explorer.instruments.passes.figures import (
    GraphPasses,
    PassStep,
    in_users_words,
    names_of_users,
    passes_by_graph,
    replaced_nodes,
)
from fx_explorer.instruments.passes.near_match_reasons import (
    Near,
    describe_check,
    describe_near,
    nearest,
)
from fx_explorer.session import SessionReader

COLUMNS = (
    TableColumn("pass, node", "strong", min_width=24, max_width=60),
    TableColumn("did", min_width=31, max_width=44),
    TableColumn("node, before → after", min_width=24, max_width=160, priority=1),
    TableColumn("pattern", "annotation", min_width=10, max_width=40, priority=2),
    TableColumn("time", is_number=True, min_width=8, priority=3),
)

MOST_NODES = 200
"""Maximum number of nodes that are listed of one pass."""

ROWS_AT_FIRST = 40

NOT_IN_LOG = (
    "A log does not have the effects of each pass. The stages (3) compare the graphs before and "
    "after them."
)

NO_PASS = (
    "No Inductor pass changed a graph. Inductor runs its passes when the inductor backend "
    "compiles a graph."
)


def passes_table(reader: SessionReader) -> ViewTable:
    graphs = passes_by_graph(reader)
    lines = _Lines(reader)
    near: dict[int, list[Near]] = {}
    for each in nearest(reader):
        near.setdefault(each.graph.id, []).append(each)
    for passes in graphs:
        if passes.steps or passes.graph.id in near:
            lines.add_graph(passes)
            lines.add_near(passes.graph, near.get(passes.graph.id, []))
    unchanged = [passes.graph for passes in graphs if not passes.steps]
    lines.add_unchanged([graph for graph in unchanged if graph.id not in near])
    return ViewTable(
        shows="What each of Inductor's passes changed, node by node.",
        notice="",
        origin="the nodes of the graph before and after each pass, compared while it compiled",
        columns=COLUMNS,
        rows=lines.rows,
        empty=NOT_IN_LOG if is_log(reader) else NO_PASS,
        tree=lines.tree(),
        answer=" ".join(
            filter(None, (_answer(reader, graphs), _unfinished(reader), _near_answer(reader)))
        ),
    )


def _answer(reader: SessionReader, graphs: list[GraphPasses]) -> str:
    steps = []
    for passes in graphs:
        steps += [(passes, step) for step in passes.steps if step.changes]
    idle = sum(len(each.without_effect) for each in graphs)
    if not steps:
        return f"None of {counted(idle, 'pass')} changed a graph." if idle else ""
    passes, most = max(steps, key=lambda found: len(found[1].changes))
    name = most.row.name
    if most.depth > 1:
        parents = {step.row.position: step.row.name for step in passes.steps}
        name = f"{parents.get(most.row.parent, '')} › {name}".lstrip(" ›")
    return (
        f"{counted(len(steps), 'pass')} changed a graph, {idle:,} changed nothing. {name} made "
        f"the most changes: it {_deeds(most)} in {_name_of_graph(reader, passes.graph)}."
    )


def _unfinished(reader: SessionReader) -> str:
    """Return why passes are missing: one that raised, or another error of the compiler before they
    had ended; empty if all ended.
    """
    sentences = []
    for compilation in reader.rows(model.Compilation, status="failed", backend="inductor"):
        missing = compilation.missing_stages or {}
        if "post_grad" in missing and "forward" not in missing:
            sentences.append(
                f"Passes after AOTAutograd are not listed for [{compilation.name}], because an "
                f"error came before or during them: {compilation.error}."
            )
    return " ".join(sentences)


def _deeds(step: PassStep) -> str:
    """Return ``made 15 nodes, removed 3 and changed 1``."""
    counts = _counts(step)
    deeds = [f"{verb} {count:,}" for count, verb in counts]
    deeds[0] += f" {plural(counts[0][0], 'node')}"
    return listed(deeds)


def _counts(step: PassStep) -> list[tuple[int, str]]:
    row, replaced = step.row, step.replaced
    counts = [
        (row.made - replaced, "made"),
        (row.erased - replaced, "removed"),
        (replaced, "replaced"),
        (row.changed, "changed"),
    ]
    return [(count, verb) for count, verb in counts if count]


def _name_of_graph(reader: SessionReader, graph: model.Graph) -> str:
    """Return ``the joint graph of [0/0]``."""
    stage = GRAPH_TITLES[graph.stage].lower().removesuffix(" graph")
    nested = graph.name if graph.parent else ""
    name = " ".join(filter(None, (graph.direction, stage, "graph", nested)))
    return f"the {name} of [{document_of(reader, 'graph', graph.id).owner}]"


def _near_answer(reader: SessionReader) -> str:
    near = nearest(reader)
    if not near:
        return ""
    return f"A pattern nearly matched {counted(len(near), 'time')}."


def describe_counts(step: PassStep) -> str:
    """Return ``15 made, 3 removed, 1 changed``; a node that was made in the place of one of the
    same operator is replaced.
    """
    return ", ".join(f"{count:,} {verb}" for count, verb in _counts(step))


def _title(reader: SessionReader, graph: model.Graph) -> str:
    return document_of(reader, "graph", graph.id).full_title


def keys_of_change(change: model.PassChange) -> tuple[str, str]:
    """Return the keys of the row about a node that a pass changed, and of the row about the pass,
    which stands for nodes that have no row of their own.
    """
    return _key_of_node(change), _key_of_pass(change.graph, change.graph_pass)


def keys_of_near(near: Near) -> tuple[str, str]:
    """Return the keys of the row about a pattern that nearly matched, and of the row about all of
    the graph, which stands for those that have no row of their own.
    """
    return f"near {near.row.id}", _key_of_all_near(near.graph)


def _key_of_all_near(graph: model.Graph) -> str:
    return f"{graph.id} near"


def _key_of_pass(graph: int, position: int) -> str:
    return f"pass {graph} {position}"


def _key_of_node(change: model.PassChange) -> str:
    return f"node {change.id}"


class _Lines:
    """The rows of the table, and their places in the tree."""

    def __init__(self, reader: SessionReader) -> None:
        self.rows: list[TableRow] = []
        self._reader = reader
        self._depths: list[int] = []
        self._keys: list[str] = []
        self._names: list[str] = []
        self._users_names: dict[str, str] = {}
        """Torch's name → the user's, of the compilation whose passes are being added."""

    def tree(self) -> Tree | None:
        if not self.rows:
            return None
        folded = folded_to_fit(self._depths, frozenset(), ROWS_AT_FIRST)
        return Tree(self._depths, self._keys, self._names, folded, lambda rows: "")

    def add_graph(self, passes: GraphPasses) -> None:
        graph = passes.graph
        title = _title(self._reader, graph)
        idle = counted(len(passes.without_effect), "other pass")
        did = f"{idle} changed nothing" if passes.without_effect else ""
        names = ", ".join(passes.without_effect)
        row = TableRow(
            (title, did, "", "", seconds(passes.duration_s)),
            Place(document_of(self._reader, "graph", graph.id)),
            partial(Detail, f"Changed nothing: {names}." if names else "Every pass changed it."),
        )
        self._add(row, 0, f"graph {graph.id}", title)
        self._users_names = names_of_users(self._reader, graph.compilation)
        for step in passes.steps:
            self._add_step(graph, step)

    def add_near(self, graph: model.Graph, near: Sequence[Near]) -> None:
        """Add the patterns that nearly matched in a graph, below one row."""
        if not near:
            return
        name = "patterns that nearly matched"
        row_of_all = TableRow((name, counted(len(near), "time"), "", "", ""))
        self._add(row_of_all, 1, _key_of_all_near(graph), name)
        for each in near[:MOST_NODES]:
            row = each.row
            node = self._users_names.get(row.name, row.name) or "no node"
            texts = describe_check(row) if row.name else f"no node calls {row.expected}"
            there = f"{max(row.alike, len(row.matched))} of {row.size} there"
            cells = (node, there, texts, listed(row.patterns, 3), "")
            self._add(
                TableRow(
                    cells,
                    detail=partial(self._near_detail, each),
                    find_place=partial(self._near_place, each) if row.name else None,
                ),
                2,
                keys_of_near(each)[0],
                node,
            )

    def _near_detail(self, near: Near) -> Detail:
        row = near.row
        lines = [describe_near(self._reader, near)]
        if row.matched:
            lines.append(f"Matched: {', '.join(row.matched)}.")
        lines.append(f"Patterns: {', '.join(row.patterns)}.")
        if row.line:
            lines.append(f"Written at {row.file}:{row.line}.")
        if row.torch_says:
            lines.append(f"torch says: {row.torch_says}")
        return Detail("\n".join(lines))

    def _near_place(self, near: Near) -> Place | None:
        """Return the place of the node that the check failed at, or else of the one at which the
        pattern was tried.
        """
        for name in (near.row.at, near.row.name):
            nodes = self._reader.rows(model.Node, graph=near.graph.id, name=name) if name else []
            if nodes:
                return place_of_node(self._reader, nodes[0])
        return None

    def add_unchanged(self, graphs: Sequence[model.Graph]) -> None:
        """Add one row for all graphs that no pass changed."""
        if graphs:
            titles = [_title(self._reader, graph) for graph in graphs]
            name = counted(len(graphs), "graph")
            row = TableRow(
                (name, "no pass changed a node", "", "", ""),
                detail=partial(Detail, f"No pass changed: {', '.join(titles)}."),
            )
            self._add(row, 0, "unchanged", name)

    def _add_step(self, graph: model.Graph, step: PassStep) -> None:
        row = step.row
        key = _key_of_pass(graph.id, row.position)
        cells = (row.name, describe_counts(step), "", "", seconds(row.duration_s))
        self._add(TableRow(cells), 1 + step.depth, key, row.name)
        replaced = replaced_nodes(step.changes)
        gone = {old.id for old in replaced.values()}
        changes = [change for change in step.changes if change.id not in gone]
        for change in changes[:MOST_NODES]:
            self._add_change(step, change, replaced.get(change.name))
        more = len(changes) - MOST_NODES
        if more > 0:
            name = counted(more, "more node")
            self._add(TableRow((name, "", "", "", "")), 2 + step.depth, f"{key} more", name)

    def _add_change(
        self, step: PassStep, change: model.PassChange, old: model.PassChange | None
    ) -> None:
        """Add what a pass did with a node; ``old`` is one of the same operator that it replaces."""
        names = self._users_names
        name = names.get(change.name, change.name)
        verb = {"erased": "removed"}.get(change.kind, change.kind)
        if old is not None and change.kind == "made":
            verb = f"replaces {names.get(old.name, old.name)}"
        elif change.replaced:
            verb += " for " if change.kind == "made" else ", now "
            verb += ", ".join(names.get(replaced, replaced) for replaced in change.replaced)
        before = old.before if old is not None and change.kind == "made" else change.before
        texts = [in_users_words(text, names) for text in (before, change.after) if text]
        row = TableRow(
            (name, verb, " → ".join(texts), change.pattern, ""),
            detail=partial(Detail, "\n→ ".join(texts)),
            find_place=partial(self._place, change) if change.node else None,
        )
        self._add(row, 2 + step.depth, _key_of_node(change), name)

    def _place(self, change: model.PassChange) -> Place | None:
        return place_of_node(self._reader, self._reader.get(model.Node, change.node))

    def _add(self, row: TableRow, depth: int, key: str, name: str) -> None:
        self.rows.append(row)
        self._depths.append(depth)
        self._keys.append(key)
        self._names.append(name)
