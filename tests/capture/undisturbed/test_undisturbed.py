"""These tests check that recording changes nothing: graphs, breaks, recompiles, generated code and
results are those of a process without us.

The bare process has no trace on and does not import fx-explorer. What is compared are torch's own
counters, and codes where torch's own tests take them (run.py). ``make exhaustive`` compares more
programs, and larger ones, and ``benchmarks/compare_programs.py`` builds the kernels of all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.exhaustive import with_others
from tests.shared_files import locked

SAMPLE = [
    "wrapper_without_repr",
    "torch_function_subclass",
    "dispatch_mode_around_compiled",
    "in_place_and_views",
    "parameter_subclass",
    "compiled_autograd_config",
    "custom_autograd_function",
    "module_hooks",
    "saved_tensor_hooks",
    "checkpointed",
    "compile_inside_compiled",
    "stances",
    "fullgraph_that_fails",
    "break_in_try",
    "exception_that_leaves",
    "backend_of_the_users",
    "backend_that_raises",
    "custom_op",
    "dynamic_with_gradient",
    "float_that_changes",
    "item_float_in_a_condition",
    "generators",
    "context_managers",
    "odd_objects",
    "with_settrace",
    "in_a_thread",
    "in_a_forked_child",
    "config_while_compiling",
    "passes_of_the_users",
    "requires_grad_changes_later",
    "inputs_that_are_resized_later",
    "conditional",
    "autocast_inside",
    "ahead_of_time_backends",
    "rows_counted_in_the_data",
]

OTHERS = [
    "wrapper_whose_repr_raises",
    "wrapper_made_inside",
    "torch_function_that_refuses",
    "dispatch_mode_inside",
    "small_dtypes",
    "custom_function_with_compiled_autograd",
    "tensor_hooks",
    "stance_inside_compiled",
    "exception_caught_inside",
    "backend_that_raises_suppressed",
    "compiled_generator",
    "metaclasses",
    "module_compile_method",
    "vectorized",
    "default_dtype_changes_later",
    "compile_called_while_tracing",
    "outputs_that_are_inputs",
    "thresholds_of_the_collector",
    "item_and_changing_float",
    "rows_of_a_batch",
    "modes_that_change_later",
    "weak_references",
    "float_that_is_dropped",
    "attention_over_a_length",
    "positions_made_of_sizes",
    "rows_in_small_types",
    "split_and_joined",
    "rows_that_leave",
    "wrapper_with_gradient",
    "compiled_autograd_everywhere",
    "captured_scalars",
    "float_to_int",
    "aliased_inputs",
    "strange_strides",
    "dictionaries",
    "dataclass_state",
    "named_tuples",
    "odd_module",
    "globals_and_closures",
    "warns_and_prints",
    "random_numbers",
    "torch_function_mode",
    "with_setprofile",
    "integer_that_changes",
    "marked_dynamic",
    "mutating_custom_op",
    "disabled_function",
    "functional_gradient",
    "parts_of_a_batch",
    "views_with_arithmetic",
    "strided_and_unfolded",
    "picked_by_index",
    "convolutions_of_a_batch",
    "attention_of_a_batch",
    "loops_over_steps",
    "written_in_place",
]
"""Programs that are like one of the sample, and those whose first size varies, which take longer
than all others together.
"""

PROGRAMS = with_others(SAMPLE, OTHERS)

WHEN_PAUSED = with_others(
    [
        "backend_of_the_users",
        "backend_that_raises",
        "dynamic_with_gradient",
        "item_float_in_a_condition",
        "config_while_compiling",
        "passes_of_the_users",
        "in_a_thread",
        "rows_counted_in_the_data",
    ],
    [
        "wrapper_without_repr",
        "backend_that_raises_suppressed",
        "context_managers",
        "default_dtype_changes_later",
        "float_that_changes",
        "inputs_that_are_resized_later",
        "wrapper_with_gradient",
        "float_to_int",
        "captured_scalars",
        "float_that_is_dropped",
        "item_and_changing_float",
        "modes_that_change_later",
        "requires_grad_changes_later",
        "rows_of_a_batch",
        "written_in_place",
    ],
)
"""Those whose graphs, when they wait until the program is through, could come out otherwise."""

CACHES_OFF = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
"""A capture switches torch's caches off, too."""

COUNTED = ("stats", "graph_break", "resumes", "compiled_autograd", "inductor", "aten_mm_info")
"""Groups of torch's counters (torch/_dynamo/utils.py)."""

Observed = dict[str, dict[str, Any]]

ASKED = {"bare": PROGRAMS, "inspect": PROGRAMS, "paused": WHEN_PAUSED}


@pytest.fixture(scope="module")
def seen(shared_folder: Path, capture_environment: dict[str, str]) -> dict[str, Observed]:
    """Return the observations of each program, by the way it was run; made once for the whole run
    of the tests.
    """
    folder = shared_folder / "undisturbed"
    with locked(shared_folder / "undisturbed.lock"):
        if not folder.exists():
            begun = shared_folder / "undisturbed-begun"
            begun.mkdir(exist_ok=True)
            command = [
                sys.executable,
                "-m",
                "tests.capture.undisturbed.run",
                "each",
                str(begun),
                "--quick",
            ]
            ended = subprocess.run(
                command,
                input=json.dumps(ASKED),
                env={**capture_environment, **CACHES_OFF},
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert ended.returncode == 0, ended.stderr[-2000:]
            begun.rename(folder)
    told = {
        how: map(json.loads, (folder / f"{how}.jsonl").read_text().splitlines()) for how in ASKED
    }
    return {how: {found["program"]: found for found in programs} for how, programs in told.items()}


def differences(bare: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Return the differences as sentences; nothing when all is equal."""
    fields = ("compiles", "codes", "outcome", "raised")
    pairs = [(name, bare[name], ours[name]) for name in fields]
    pairs += [(name, bare["counters"].get(name), ours["counters"].get(name)) for name in COUNTED]
    return [f"{name}: {one} became {other}"[:1000] for name, one, other in pairs if one != other]


def test_a_program_is_compiled_the_same_while_it_is_recorded(seen: dict[str, Observed]) -> None:
    bare, ours = seen["bare"], seen["inspect"]
    assert len(bare) == len(PROGRAMS) >= 35
    assert {
        name: found for name in PROGRAMS if (found := differences(bare[name], ours[name]))
    } == {}


def test_a_program_whose_graphs_wait_for_the_user_is_compiled_the_same(
    seen: dict[str, Observed],
) -> None:
    bare, ours = seen["bare"], seen["paused"]
    assert {
        name: found for name in WHEN_PAUSED if (found := differences(bare[name], ours[name]))
    } == {}


def test_what_is_compared_would_show_a_difference(seen: dict[str, Observed]) -> None:
    bare = seen["bare"]
    assert differences(bare["in_place_and_views"], bare["break_in_try"])
    assert bare["in_place_and_views"]["counters"]["stats"]["unique_graphs"] == 1
    assert sum(len(found["codes"]) for found in bare.values()) > len(PROGRAMS)
