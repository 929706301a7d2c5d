"""The views of a session are listed here, with the commands that open them."""

from __future__ import annotations

from fx_explorer.tui.commands.command import AppCommand, Declaration, declared

VIEWS: tuple[tuple[str, str, str], ...] = (
    ("overview", "overview", "What happened, in plain words, and what to look at first."),
    (
        "source",
        "source",
        "Your file at its most interesting line, next to graph and kernel, linked line by line.",
    ),
    (
        "stages",
        "stages",
        "What each stage did, from Dynamo to the kernels: its input and its output.",
    ),
    ("breaks", "breaks", "Graph breaks and recompiles: where, why, and what to try."),
    ("guards", "guards", "What must stay true for the compiled code to be reused."),
    ("kernels", "kernels", "The generated kernels and library calls, in the order they run."),
    ("memory", "memory", "Tensors that the forward saves for the backward."),
    ("console", "console", "Your program's output, and its errors."),
    ("time", "time", "Where compile time went."),
    (
        "modules",
        "modules",
        "Your modules as a tree: breaks, operations, kernel calls, time, saved bytes and compile "
        "time of each.",
    ),
)
"""(name, footer label, sentence), in the order of the keys 1 to 9 and 0."""


def digit_of(at: int) -> str:
    """Return the key of the view at this place of VIEWS, from 0 on."""
    return str((at + 1) % 10)


MORE_VIEWS: tuple[tuple[str, str, str, str], ...] = (
    (
        "graphs",
        "v a",
        "all graphs",
        "Every FX graph that was captured, with its nodes and most frequent operations.",
    ),
    (
        "regions",
        "v r",
        "regions",
        "Regions that annotate or you marked: nodes, whether they are compiled, and their kernels.",
    ),
    (
        "sizes",
        "v s",
        "dynamic sizes",
        "Dynamic and specialized sizes, and the reason for each.",
    ),
    (
        "backend",
        "v b",
        "backend",
        (
            "What your own backend published, how often its compiled functions were called, and "
            "its last run by instructions."
        ),
    ),
    (
        "ledger",
        "v l",
        "a call",
        (
            "Where the time of one call goes: guards, kernels, graph breaks, autograd, and each "
            "line compared with eager mode."
        ),
    ),
    (
        "flame",
        "v w",
        "compile time",
        (
            "Compile time as a flame chart and as a tree: nested phases, down to your modules and "
            "lines."
        ),
    ),
    (
        "profile",
        "v g",
        "profile",
        (
            "A torch.profiler trace together with the session: where the GPU's time went, its "
            "idle gaps, and what the program did in them."
        ),
    ),
    (
        "roofline",
        "v k",
        "roofline",
        (
            "The limit of each kernel: operations per byte against operations per second, below "
            "the roof of the GPU or processor."
        ),
    ),
    (
        "trace",
        "v d",
        "Dynamo's trace",
        (
            "Dynamo's work at each line, in its order: inlined calls, added nodes and guards, "
            "graph breaks and restarts."
        ),
    ),
    (
        "side_effects",
        "v e",
        "side effects",
        (
            "Side effects that compiled code applies after its graphs: attributes, lists, dicts, "
            "sets, closures, each with your line."
        ),
    ),
    (
        "values",
        "v h",
        "values",
        (
            "Facts about a graph's inputs and outputs: which are changed and copied back, which "
            "are views of others, DTensors."
        ),
    ),
    (
        "collectives",
        "v j",
        "collectives",
        (
            "The collectives of the graphs: order, bytes, process group, your line, and the work "
            "that runs during each."
        ),
    ),
    (
        "passes",
        "v t",
        "Inductor's passes",
        (
            "Inductor's passes over each graph: the nodes that each made, changed and removed, "
            "the pattern that matched, its time."
        ),
    ),
    (
        "fusion",
        "v y",
        "fusion",
        (
            "Kernels that access the same memory and were not fused: Inductor's reason, the bytes "
            "that one kernel would save, your lines."
        ),
    ),
    (
        "decisions",
        "v z",
        "why so",
        (
            "Why kernels are the way they are: library calls, copies for a memory layout, split "
            "reductions, tiles, vectors, threads."
        ),
    ),
    (
        "step_memory",
        "v m",
        "memory of a step",
        (
            "Memory held in a step, kernel by kernel: parameters, saved activations, gradients, "
            "temporaries; the peak."
        ),
    ),
    (
        "bench",
        "v p",
        "bench",
        (
            "Whether compiling pays: eager mode, and each backend, mode and batch size, measured "
            "in turns."
        ),
    ),
    (
        "numerics",
        "v n",
        "is it right",
        (
            "Whether compiled code gives the same results as eager mode, with float64 as the "
            "reference, and the first operator that differs."
        ),
    ),
    (
        "support",
        "v u",
        "backend support",
        (
            "Operators that the backend supports: its segments, what crosses their borders, why "
            "the graph is split there, every operator's share."
        ),
    ),
)
"""(name, key, label, sentence) of the views that have no number."""


KERNEL_VIEW = (
    "candidates",
    "v c",
    "configurations",
    (
        "The candidates of the autotuner: configurations of a Triton kernel with their resources, "
        "library calls."
    ),
)
"""The entry for the view of the kernel under the cursor, in the form of MORE_VIEWS."""


def sentence_of(view: str) -> str:
    """Return a sentence on what a view shows; empty for an unknown view."""
    more = tuple((name, label, sentence) for name, _, label, sentence in (*MORE_VIEWS, KERNEL_VIEW))
    return next((sentence for name, _, sentence in (*VIEWS, *more) if name == view), "")


def _of_views() -> tuple[AppCommand, ...]:
    numbered = [
        (name, f"{digit_of(at)},v {digit_of(at)}", label, sentence)
        for at, (name, label, sentence) in enumerate(VIEWS)
    ]
    return tuple(_show_view(*view) for view in (*numbered, *MORE_VIEWS))


def _show_view(name: str, key: str, label: str, sentence: str) -> AppCommand:
    return AppCommand(
        f"view.{name}",
        tuple(key.split(",")),
        f"show_view('{name}')",
        label,
        sentence,
        "explorer",
        "Views",
        footer=key[0].isdecimal(),
    )


def _screen_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            f"view.{KERNEL_VIEW[0]}",
            KERNEL_VIEW[1],
            lambda c: c.kernel_levels.show_configurations(),
            KERNEL_VIEW[2],
            KERNEL_VIEW[3],
        ),
        Declaration(
            "view.plugins",
            "v x",
            lambda c: c.panes.show_plugin_view(),
            "views of plug-ins",
            "Show a view that an installed plug-in adds.",
        ),
        Declaration(
            "variants.compare",
            "v v",
            lambda c: c.comparisons.compare_variants(),
            "compare two variants",
            "Show two variants of a compilation, or two compilations, side by side, with their "
            "differences.",
        ),
        Declaration(
            "table.filter",
            "v f",
            lambda c: c.panes.filter_rows(),
            "filter rows",
            (
                "Show only table rows (elsewhere: guards) that contain the words you type; escape "
                "shows all again."
            ),
        ),
        Declaration(
            "table.sort",
            "less_than_sign,v o",
            lambda c: c.panes.sort_rows(),
            "sort rows",
            "Sort the rows of the table by a column, reverse the order, or restore it; sort a "
            "graph by its times in a profile, or restore its order. Clicking on a heading does "
            "the same.",
        ),
    )


def _app_commands() -> tuple[Declaration, ...]:
    return (
        Declaration(
            "kernel.passes",
            "v i",
            lambda c: c.kernel_levels.show_passes(),
            "MLIR passes",
            (
                "Show which passes of Triton's compiler changed the IR of the kernel at the "
                "cursor, and how."
            ),
        ),
        Declaration(
            "kernel.bench",
            "x k",
            lambda c: c.measurements.time_kernel(),
            "measure a kernel",
            (
                "Run the kernel at the cursor alone and repeatedly on this machine's GPU: its "
                "time, GB/s and TFLOP/s."
            ),
        ),
        Declaration(
            "breaks.fix",
            "x x",
            lambda c: c.trials.show_fixes(),
            "fixes",
            (
                "Show edits and options that may avoid the graph break at the cursor; try them, "
                "write them."
            ),
        ),
        Declaration(
            "breaks.try_all",
            "x a",
            lambda c: c.trials.try_all_fixes(),
            "try all fixes",
            (
                "Try all changes that may avoid the graph break at the cursor, most promising "
                "first, and changes that avoid all breaks."
            ),
        ),
        Declaration(
            "breaks.undo",
            "x u",
            lambda c: c.trials.undo_fix(),
            "undo a fix",
            ("Restore the files that the last written fix changed."),
        ),
        Declaration(
            "capture.since",
            "o d",
            lambda c: c.comparisons.show_differences(),
            "what changed",
            (
                "Show differences from the last capture: breaks, recompiles, graphs, kernels, "
                "memory, time, and your source."
            ),
        ),
        Declaration(
            "capture.other_python",
            "o p",
            lambda c: c.comparisons.compare_with_other_python(),
            "another torch",
            (
                "Capture the program by another Python, which may have another release of torch, "
                "and compare: graphs, guards, options, passes, kernels."
            ),
        ),
        Declaration(
            "sizes.try",
            "x d",
            lambda c: c.trials.try_dynamic(),
            "try dynamic shapes",
            (
                "Compare dynamic=None, True, False and mark_dynamic on your inputs and on others: "
                "what recompiles, and what to write."
            ),
        ),
        Declaration(
            "bench.run",
            "x p",
            lambda c: c.measurements.bench_program(),
            "does compiling pay?",
            (
                "Measure the program in eager mode, and compiled with the backends, modes and "
                "batch sizes you name, and compare the results."
            ),
        ),
        Declaration(
            "numerics.run",
            "x n",
            lambda c: c.measurements.compare_with_eager(),
            "is it right?",
            (
                "Compare results and gradients with eager mode and float64, and name the first "
                "operator that differs."
            ),
        ),
        Declaration(
            "remedies.try",
            "x r",
            lambda c: c.measurements.try_remedies(),
            "try what may help",
            (
                "Try the remedies of the findings that are settings or small edits, one after the "
                "other, and show the effect of each."
            ),
        ),
        Declaration(
            "ledger.run",
            "x c",
            lambda c: c.measurements.account_for_call(),
            "where does a call's time go?",
            (
                "Build the program and measure the time of a call, step by step, with the same "
                "call in eager mode."
            ),
        ),
    )


VIEW_COMMANDS = (
    *_of_views(),
    *declared("explorer", "Views", *_screen_commands()),
    *declared("app", "Views", *_app_commands()),
)
