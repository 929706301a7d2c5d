"""These tests check the chain of links through the levels, and the table of configurations, on
sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents,
    graph_document,
    lines_of,
)
from fx_explorer.analysis.kernel_documents import (
    build_of_level,
    level_document,
    levels_of,
    linked_with_levels,
    options_that_differ,
    session_gpu,
)
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.instruments.kernels.candidates import (
    builds,
    candidates,
    estimate,
    instruction_mix,
    kernels_named,
    shared_options,
    what_is_not_known,
)
from fx_explorer.instruments.kernels.gpu_limits import (
    ATTENTION_BY_OUR_RULES,
    TEMPLATE_WITHOUT_FUSION,
    UNKNOWN_LIBRARY_KERNEL,
    UNKNOWN_PADDING,
    UNKNOWN_PICK,
)
from fx_explorer.session import SessionReader, SessionWriter
from tests.analysis.kernel_ir.built_sessions import Written, write_kernel
from tests.analysis.kernel_ir.samples import sample


class Built:
    """The softmax on an H100, and what there is to look at."""

    def __init__(self, reader: SessionReader, written: Written) -> None:
        self.reader = reader
        self.written = written
        self.sample = sample("h100_softmax")
        (self.kernel,) = reader.rows(model.Kernel)
        (self.build,) = reader.rows(model.KernelBuild)
        self.graph = graph_document(written.graph)
        self.source = document_of(reader, "artifact", written.artifact)

    def level(self, level: model.Level) -> Document:
        found = level_document(self.reader, self.build, level)
        assert found is not None
        return found

    def lines(self, document: Document, numbers: frozenset[int]) -> str:
        text = lines_of(self.reader, document)
        return "\n".join(text[number] for number in sorted(numbers))

    def nodes(self, rows: frozenset[int]) -> set[str]:
        return {self.reader.nodes(self.written.graph, row, row + 1)[0].name for row in rows}


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"))
    with SessionReader(written.path) as reader:
        yield Built(reader, written)


def test_a_node_lights_up_its_instructions_at_every_level(built: Built) -> None:
    (erf,) = (
        node.position for node in built.reader.nodes(built.written.graph) if node.name == "erf"
    )
    shown = [built.source, *(built.level(level) for level in ("ttgir", "llir", "ptx", "sass"))]
    found = linked_with_levels(Selection(built.reader, Place(built.graph, erf)), shown)
    assert "libdevice.erf" in built.lines(built.source, found[built.source])
    for document, operation in zip(
        shown[1:], ("__nv_erf", "llvm.nvvm.fma", "fma.rn", "FFMA"), strict=True
    ):
        assert operation in built.lines(document, found[document])


def test_an_instruction_lights_up_the_node_and_the_same_computation_at_the_other_levels(
    built: Built,
) -> None:
    sass = built.level("sass")
    text = lines_of(built.reader, sass)
    store = next(number for number, line in enumerate(text) if "STG" in line)
    shown = [sass, built.level("ptx"), built.level("ttgir"), built.source, built.graph]
    found = linked_with_levels(Selection(built.reader, Place(sass, store)), shown)
    assert store in found[sass]
    assert "st.global" in built.lines(shown[1], found[shown[1]])
    assert "tt.store" in built.lines(shown[2], found[shown[2]])
    assert built.lines(built.source, found[built.source]).strip().startswith("tl.store(")
    assert built.nodes(found[built.graph]) == {"div"}


def test_a_triton_line_leads_down_and_up(built: Built) -> None:
    line = built.sample.line_of("tl.sum(") - 1
    ptx = built.level("ptx")
    found = linked_with_levels(
        Selection(built.reader, Place(built.source, line)), [built.graph, ptx]
    )
    assert "shfl.sync" in built.lines(ptx, found[ptx])
    assert built.nodes(found[built.graph]) == {"getitem"}


def test_a_node_that_a_template_computes_as_a_whole_has_all_lines_but_those_of_what_is_fused_into_it(
    built: Built,
) -> None:
    store = built.sample.line_of("tl.store(")
    whole, fused = built.reader.nodes(built.written.graph)[:2]
    with SessionWriter(built.written.path) as writer:
        own = built.reader.get(model.Artifact, built.written.artifact)
        artifact = writer.add(replace(own, id=0, kind="candidate"))
        writer.add_all(
            [model.LineNode(artifact, 0, node.id, "origins", 0) for node in (whole, fused)]
        )
        writer.add(model.LineNode(artifact, store, fused.id, "codegen", 0))
        levels = {model.SOURCE_LEVEL: artifact, "ptx": writer.add(_copy(built, "ptx"))}
        build = replace(
            built.build, id=0, position=1, origin="template", source=own.text, levels=levels
        )
        writer.add(build)
    ptx = level_document(built.reader, build, "ptx")
    assert ptx is not None
    for node, there, not_there in (
        (whole, "ld.global", "st.global"),
        (fused, "st.global", "ld.global"),
    ):
        lit = built.lines(
            ptx,
            linked_with_levels(Selection(built.reader, Place(built.graph, node.position)), [ptx])[
                ptx
            ],
        )
        assert there in lit
        assert not_there not in lit


def test_levels_of_another_kernel_stay_dark(built: Built, tmp_path: Path) -> None:
    with SessionWriter(built.written.path) as writer:
        other = writer.add(replace(built.kernel, id=0, name="other"))
        build = replace(
            built.build, id=0, kernel=other, levels={"ptx": writer.add(_copy(built, "ptx"))}
        )
        writer.add(build)
    shown = document_of(built.reader, "artifact", build.levels["ptx"])
    assert build_of_level(built.reader, shown).kernel == other  # type: ignore[union-attr]
    assert (
        linked_with_levels(Selection(built.reader, Place(built.level("sass"), 20)), [shown])[shown]
        == frozenset()
    )


def _copy(built: Built, level: str) -> model.Artifact:
    return replace(built.reader.get(model.Artifact, built.build.levels[level]), id=0)


def test_levels_are_no_documents_of_the_compilation(built: Built) -> None:
    assert {document.language for document in documents(built.reader)} == {"graph", "triton"}
    assert levels_of(built.build) == ["ttir", "ttgir", "llir", "ptx", "sass"]


def test_the_table_has_resources_and_what_limits_them(built: Built) -> None:
    gpu = session_gpu(built.reader)
    assert gpu is not None
    (one,) = candidates(built.reader, built.kernel, gpu)
    assert (one.build.registers, one.ptx_lines) == (
        30,
        len(lines_of(built.reader, built.level("ptx"))),
    )
    assert one.occupancy is not None
    assert (one.occupancy.share, one.occupancy.limited_by) == (1.0, ("warps", "registers"))
    assert instruction_mix(built.reader, one.build).by_kind["global load"] == 2  # type: ignore[union-attr]
    found = estimate(built.reader, built.kernel, gpu, one.build)
    assert (found.bound, found.kind) == ("start", "fp32")
    assert found.memory_s == pytest.approx(516_000 / 3.35e12)


def test_builds_for_another_gpu_are_not_mixed_in(built: Built) -> None:
    gpu = session_gpu(built.reader)
    assert gpu is not None
    assert builds(built.reader, built.kernel, replace(gpu, name="a100")) == []


def test_options_that_all_share_are_left_out() -> None:
    row = model.KernelBuild(0, 1, 0, {"XBLOCK": 1, "num_warps": 8}, "h100")
    other = replace(row, options={"XBLOCK": 2, "num_warps": 8})
    assert options_that_differ([row, other]) == ["XBLOCK"]
    assert shared_options([row, other]) == {"num_warps": 8}
    assert (options_that_differ([row]), shared_options([row])) == ([], row.options)
    assert row.shown_options == "XBLOCK 1 · 8 warps"


def test_what_is_not_known_is_said_where_it_matters(built: Built) -> None:
    row = built.build
    assert what_is_not_known(built.kernel, [row]) == []
    assert what_is_not_known(built.kernel, [row, row]) == [UNKNOWN_PICK]
    choice = replace(row, origin="template", source=1)
    assert TEMPLATE_WITHOUT_FUSION not in what_is_not_known(built.kernel, [row, choice])
    assert TEMPLATE_WITHOUT_FUSION in what_is_not_known(
        built.kernel, [row, replace(choice, name="triton_mm")]
    )


def test_of_a_library_call_is_said_what_the_gpu_would_decide(built: Built) -> None:
    library = replace(built.kernel, language="extern", name="extern_kernels.addmm")
    assert what_is_not_known(library, []) == [UNKNOWN_LIBRARY_KERNEL, UNKNOWN_PADDING]
    attention = replace(library, name="torch.ops.aten._scaled_dot_product_flash_attention.default")
    assert what_is_not_known(attention, []) == [UNKNOWN_LIBRARY_KERNEL, ATTENTION_BY_OUR_RULES]


def test_a_kernel_that_is_not_built_is_compared_with_the_peak_of_its_inputs(tmp_path: Path) -> None:
    written = write_kernel(tmp_path / "m.fxs", sample("h100_matmul"), built=False)
    with SessionReader(written.path) as reader:
        gpu = session_gpu(reader)
        assert gpu is not None
        assert estimate(reader, reader.rows(model.Kernel)[0], gpu).kind == "bf16"


def test_a_kernel_is_found_by_its_name_or_a_part_of_it(built: Built) -> None:
    assert (
        kernels_named(built.reader, built.kernel.name)
        == kernels_named(built.reader, "softmax_gelu")
        == [built.kernel]
    )
    assert kernels_named(built.reader, "conv") == []
