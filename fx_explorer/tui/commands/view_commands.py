"""The views of a session are listed here, with the commands that open them."""

from __future__ import annotations

from fx_explorer.tui.commands.command import AppCommand, Declaration, declared

VIEWS: tuple[tuple[str, str, str], ...] = (
    ("overview", "overview", "What happened, in plain words, and what to look at first."),
    (
        "source",
        "source",
        "Your file at its most interesting line, beside graph and kernel, linked line by line.",
    ),
    (
        "stages",
        "stages",
        "What each stage did, from Dynamo to the kernels: what went in and what came out.",
    ),
    ("breaks", "breaks", "Graph breaks and recompiles: where, why, and what to try."),
    ("guards", "guards", "What must stay true for the compiled code to be reused."),
    ("kernels", "kernels", "The generated kernels and library calls, in the order they run."),
    ("memory", "memory", "What the forward saves for the backward."),
    ("console", "console", "What your program printed, and what went wrong."),
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
        "Regions that annotate or you marked: nodes, whether compiled, into which kernels.",
    ),
    (
        "sizes",
        "v s",
        "dynamic sizes",
        "Dynamic and specialized sizes, and what decided each.",
    ),
    (
        "backend",
        "v b",
        "backend",
        (
            "What a backend of your own published, how often what it made was called, and "
            "its last run by instructions."
        ),
    ),
    (
        "ledger",
        "v l",
        "a call",
        (
            "Where the time of one call goes: guards, kernels, graph breaks, autograd, and "
            "each line beside eager mode."
        ),
    ),
    (
        "flame",
        "v w",
        "compile time",
        (
            "Where compile time went as a flame chart and as a tree: phases within phases, "
            "down to your modules and lines."
        ),
    ),
    (
        "profile",
        "v g",
        "profile",
        (
            "A torch.profiler trace beside the session: where the GPU's time went, its idle "
            "gaps and what the program did in them."
        ),
    ),
    (
        "roofline",
        "v k",
        "roofline",
        (
            "What bounds each kernel: its operations a byte against operations a second, "
            "below the roof of the GPU or processor."
        ),
    ),
    (
        "trace",
        "v d",
        "Dynamo's trace",
        (
            "What Dynamo did at each line, in its order: calls that it inlined, nodes and guards "
            "that it added, where it broke the graph and started over."
        ),
    ),
    (
        "side_effects",
        "v e",
        "side effects",
        (
            "What compiled code changes after its graphs: attributes, lists, dicts, sets, "
            "closures, each with your line."
        ),
    ),
    (
        "values",
        "v h",
        "values",
        (
            "What is known of a graph's inputs and outputs: what is changed and copied back, what "
            "is a view of what, DTensors."
        ),
    ),
    (
        "collectives",
        "v j",
        "collectives",
        (
            "The collectives of the graphs: order, bytes, process group, your line, and what runs "
            "while each one does."
        ),
    ),
    (
        "passes",
        "v t",
        "Inductor's passes",
        (
            "Each pass of Inductor's over each graph: the nodes that it made, changed and removed, "
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
            "Why kernels are as they are: library calls, copies for a memory layout, split "
            "reductions, tiles, vectors, threads."
        ),
    ),
    (
        "step_memory",
        "v m",
        "memory of a step",
        (
            "What a step holds in memory, kernel by kernel: parameters, saved activations, "
            "gradients, temporaries; the peak."
        ),
    ),
    (
        "bench",
        "v p",
        "bench",
        (
            "Whether compiling pays: the program in eager mode, and by each backend, mode and "
            "batch size, measured in turns."
        ),
    ),
    (
        "numerics",
        "v n",
        "is it right",
        (
            "Whether compiled code computes what eager mode does, with float64 as the judge, and "
            "the first operator that differs."
        ),
    ),
    (
        "support",
        "v u",
        "backend support",
        (
            "What the backend supports: its segments, what crosses their borders, why the "
            "graph is split there, every operator's share."
        ),
    ),
)
"""(name, key, label, sentence) of the views that have no number."""


KERNEL_VIEW = (
    "candidates",
    "v c",
    "configurations",
    (
        "What the autotuner would choose from: configurations of a Triton kernel with their "
        "resources, library calls."
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
            "Show two variants of a compilation, or two compilations, side by side, with what "
            "differs.",
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
            "graph by its times in a profile, or restore its order. A click on a heading does it "
            "too.",
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
                "Show which passes of Triton's compiler changed the IR of the kernel under the "
                "cursor, and what each of them did."
            ),
        ),
        Declaration(
            "kernel.bench",
            "x k",
            lambda c: c.measurements.time_kernel(),
            "measure a kernel",
            (
                "Run the kernel under the cursor alone, again and again, on this machine's GPU: "
                "its time, GB/s and TFLOP/s."
            ),
        ),
        Declaration(
            "breaks.fix",
            "x x",
            lambda c: c.trials.show_fixes(),
            "fixes",
            (
                "Show edits and options that may avoid the graph break under the cursor; try "
                "them, write them."
            ),
        ),
        Declaration(
            "breaks.try_all",
            "x a",
            lambda c: c.trials.try_all_fixes(),
            "try all fixes",
            (
                "Try all changes that may avoid the graph break under the cursor, the likeliest "
                "first, and those that avoid all breaks."
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
                "Show what differs from the last capture: breaks, recompiles, graphs, kernels, "
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
                "what recompiles, what to write."
            ),
        ),
        Declaration(
            "bench.run",
            "x p",
            lambda c: c.measurements.bench_program(),
            "does compiling pay?",
            (
                "Measure the program in eager mode, and compiled by each backend, mode and batch "
                "size you name, and compare the results."
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
                "other, and show what each changes."
            ),
        ),
        Declaration(
            "ledger.run",
            "x c",
            lambda c: c.measurements.account_for_call(),
            "where does a call's time go?",
            (
                "Build the program and account for the time of a call, step by step, beside the "
                "same call in eager mode."
            ),
        ),
    )


VIEW_COMMANDS = (
    *_of_views(),
    *declared("explorer", "Views", *_screen_commands()),
    *declared("app", "Views", *_app_commands()),
)
