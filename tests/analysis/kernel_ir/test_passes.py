"""These tests check that MLIR's own dump is read as passes."""

from __future__ import annotations

import re
from itertools import pairwise

from fx_explorer.instruments.kernels.mlir_passes import pass_diff, passes
from tests.analysis.kernel_ir.samples import dump


def test_every_pass_that_mlir_printed_is_there_in_order() -> None:
    text = dump()
    assert [one.name for one in passes(text)] == re.findall(
        r"^// -----// IR Dump Before (\w+)", text, re.MULTILINE
    )


def test_what_a_pass_left_is_what_the_next_one_found() -> None:
    found = passes(dump())
    assert all(one.after == following.before for one, following in pairwise(found))
    assert found[-1].is_last
    assert not found[-1].changed


def test_the_pass_that_gives_layouts_changed_the_text_and_its_diff_shows_how() -> None:
    (convert,) = (one for one in passes(dump()) if one.argument == "convert-triton-to-tritongpu")
    assert convert.changed
    assert not any("ttg.convert_layout" in line for line in convert.before)
    assert any(
        row.sign in "+~" and row.after and "#blocked" in row.after for row in pass_diff(convert)
    )


def test_numbers_of_locations_are_no_change() -> None:
    one = '%0 = a loc(#loc1)\n#loc1 = loc("k.py":1:2)\n'
    other = '%0 = a loc(#loc8)\n#loc8 = loc("k.py":1:2)\n'
    text = "".join(
        f"// -----// IR Dump Before P{i} (p-{i}) ('builtin.module' operation) //----- //\n{body}"
        for i, body in enumerate((one, other))
    )
    assert [one.changed for one in passes(text)] == [False, False]


def test_a_pass_on_one_function_names_it() -> None:
    assert any(one.function.startswith("triton_per_fused") for one in passes(dump()))


def test_a_dump_without_passes_has_none() -> None:
    assert passes("error: something else") == []
