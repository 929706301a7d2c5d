"""These tests check that a template's other configurations have their own Triton sources, and that
libraries are among its choices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of
from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.instruments.kernels.candidates_view import (
    NO_CHOICE,
    TEMPLATES_MAY_BE,
    candidates_table,
)
from fx_explorer.instruments.kernels.gpu_limits import UNKNOWN_LIBRARY_PICK
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from tests.analysis.kernel_ir.built_sessions import Written, write_choices, write_kernel
from tests.analysis.kernel_ir.samples import sample
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_below import SOFTMAX, FakeBuilds, pane_of

WIDE = (240, 50)


@dataclass
class Template:
    written: Written
    artifact: int
    """Id of the artifact with the source of configuration 1."""
    builds: FakeBuilds

    @property
    def path(self) -> Path:
        return self.written.path

    def triton_lines(self, node: str) -> set[int]:
        """Lines of configuration 1's source, from 0, that compute a node: those of the record, a
        line further down.
        """
        return {
            int(line)
            for line, nodes in self.builds.sample.fields["fx_lines"].items()
            if node in nodes
        }

    def level_lines(self, level: model.Level, node: str) -> set[int]:
        recorded = self.builds.sample.lines(level)
        return {
            line - 1 for line, sources in recorded.items() if self.triton_lines(node) & set(sources)
        }


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Template:
    recorded = sample(SOFTMAX)
    builds = FakeBuilds(recorded)
    builds.gate.set()
    monkeypatch.setattr(KernelBuilds, "make_builds", staticmethod(lambda gpu, python: builds))
    written = write_kernel(tmp_path / "template.fxs", recorded, built=False)
    return Template(written, write_choices(written, recorded), builds)


async def choose(driver: Driver, *keys: str) -> None:
    """In the table of configurations, with the cursor on the first."""
    await driver.press("6", "v", "c")
    await driver.until(lambda: "not yet" not in driver.screen)
    await driver.press(*keys, "enter")


async def until_built(driver: Driver) -> None:
    await driver.until(lambda: pane_of(driver, "sass").document)


def notices(driver: Driver) -> str:
    return " ".join(notice.message for notice in driver.app._notifications)


async def test_the_source_of_the_chosen_configuration_is_shown_and_named(
    template: Template, open_app: OpenApp
) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await choose(driver, "j")
        await until_built(driver)
        document = pane_of(driver, "kernel").document
        assert document.id == template.artifact
        assert document.title.endswith("· BLOCK_M 2")
        assert pane_of(driver, "sass").document.title.startswith("SASS · BLOCK_M 2")
        assert not notices(driver)


@in_exhaustive_runs
async def test_an_instruction_is_linked_to_that_source_and_to_the_node(
    template: Template, open_app: OpenApp
) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await choose(driver, "j")
        await until_built(driver)
        sass = pane_of(driver, "sass")
        driver.explorer.linked.activate(sass)
        sass.body.user_moves_to(
            next(i for i, line in enumerate(sass.body.text.split("\n")) if "STG" in line)
        )
        await driver.settle()
        kernel = pane_of(driver, "kernel")
        assert kernel.document.id == template.artifact
        (line,) = kernel.lit
        assert kernel.body.line_text(line).strip().startswith("tl.store(")
        reader = driver.explorer.reader
        assert [
            reader.nodes(template.written.graph, row, row + 1)[0].name
            for row in pane_of(driver, "graph").lit
        ] == ["div"]
        assert any("from line" in line for line in driver.screen.splitlines()[-3:])


async def test_a_node_is_linked_to_that_source_and_to_every_level(
    template: Template, open_app: OpenApp
) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await choose(driver, "j")
        await until_built(driver)
        graph = pane_of(driver, "graph")
        row = next(
            node.position for node in driver.explorer.reader.rows(model.Node) if node.name == "erf"
        )
        driver.explorer.linked.activate(graph)
        graph.body.user_moves_to(row)
        await driver.settle()
        assert pane_of(driver, "kernel").document.id == template.artifact
        assert pane_of(driver, "kernel").lit == template.triton_lines("erf")
        for level in ("ttgir", "ptx", "sass"):
            assert pane_of(driver, level).lit == template.level_lines(level, "erf"), level  # type: ignore[arg-type]


async def test_a_line_of_that_source_leads_down(template: Template, open_app: OpenApp) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await choose(driver, "j")
        await until_built(driver)
        kernel = pane_of(driver, "kernel")
        driver.explorer.linked.activate(kernel)
        kernel.body.user_moves_to(template.builds.sample.line_of("tl.store("))
        await driver.settle()
        ptx = pane_of(driver, "ptx")
        assert "st.global" in "".join(ptx.body.line_text(row) for row in ptx.body.marks)


@in_exhaustive_runs
async def test_in_the_kernels_own_code_the_levels_are_its_own_again(
    template: Template, open_app: OpenApp
) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await choose(driver, "j")
        await until_built(driver)
        own = document_of(driver.explorer.reader, "artifact", template.written.artifact)
        await driver.explorer.go(Place(own, 20))
        await driver.until(lambda: pane_of(driver, "ptx").document.title == "PTX · BLOCK_M 1")
        assert pane_of(driver, "kernel").document == own


async def test_the_library_is_among_the_configurations_and_has_no_levels(
    template: Template, open_app: OpenApp
) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await choose(driver, "G")
        assert "The library call mm" in driver.screen
        assert "-1" not in driver.screen
        assert "the library chooses its kernel on the GPU" in notices(driver)
        assert driver.explorer.view == "candidates"
        assert {position for _, position in template.builds.asked} == {0, 1}


# two kernels


@pytest.fixture
def another(template: Template) -> model.Kernel:
    """Return a second kernel of that session, with one configuration."""
    with SessionReader(template.path) as reader, SessionWriter(template.path) as writer:
        (own,) = reader.rows(model.Kernel)
        artifact = dataclasses.replace(
            reader.get(model.Artifact, own.artifact), id=0, title="another"
        )
        kernel = dataclasses.replace(
            own, id=0, position=1, name="another", artifact=writer.add(artifact)
        )
        kernel = dataclasses.replace(kernel, id=writer.add(kernel))
        writer.add(model.KernelBuild(0, kernel.id, 0, {"XBLOCK": 1, "num_warps": 8}, "h100"))
    return kernel


@in_exhaustive_runs
async def test_the_list_stays_that_of_its_kernel_while_its_configurations_are_compiled(
    template: Template, another: model.Kernel, open_app: OpenApp
) -> None:
    async with open_app(template.path, size=WIDE) as driver:
        await driver.press("6", "p", "k")
        await until_built(driver)
        await driver.press("6", "j", "v", "c")
        await driver.until(lambda: (another.id, 0) in template.builds.answered)
        await driver.until(lambda: "not yet" not in driver.screen)
        assert "another: its configurations" in driver.screen


@in_exhaustive_runs
async def test_escape_stops_what_the_second_of_two_kernels_asked_for(
    template: Template, another: model.Kernel, open_app: OpenApp
) -> None:
    template.builds.stuck = {0, 1}
    async with open_app(template.path, size=WIDE) as driver:
        await driver.press("6", "v", "c")
        await driver.until(lambda: len(template.builds.asked) == 2)
        await driver.press("6", "j", "v", "c")
        await driver.until(lambda: len(template.builds.asked) == 3)
        assert "Cancelled" not in driver.screen
        await driver.press("escape")
        await driver.until(lambda: "Cancelled" in driver.screen)


# library calls


Chosen = Callable[[list[model.KernelBuild]], Path]


@pytest.fixture
def library_of(hand: Hand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """A session where the first library call was chosen among these."""
    monkeypatch.setattr(
        KernelBuilds, "make_builds", staticmethod(lambda gpu, python: FakeBuilds(sample(SOFTMAX)))
    )

    def made(rows: list[model.KernelBuild]) -> Path:
        path = tmp_path / "library.fxs"
        copy_session(hand.path, session_file(path))
        with SessionReader(path) as reader, SessionWriter(path) as writer:
            kernel = reader.rows(model.Kernel, language="extern")[0].id
            writer.add_all(dataclasses.replace(row, kernel=kernel) for row in rows)
        return path

    return made


def library(position: int, name: str) -> model.KernelBuild:
    return model.KernelBuild(
        0, 0, position, {"library": name}, "NVIDIA H200", "built", "library", name=name
    )


async def test_of_a_library_call_every_choice_is_shown_with_the_time_and_the_pick(
    library_of: Chosen, open_app: OpenApp
) -> None:
    taken = dataclasses.replace(library(0, "addmm"), timing_s=1e-5, is_picked=True)
    resources = {"threads": 128, "registers": 99, "shared_bytes": 0, "timing_s": 2e-5}
    template = model.KernelBuild(
        0, 0, 1, {"BLOCK_M": 64}, "NVIDIA H200", "built", "template", **resources
    )  # type: ignore[arg-type]
    async with open_app(library_of([taken, template]), size=(140, 40)) as driver:
        await driver.press("6", "v", "c")
        assert "extern_kernels.addmm: the autotuner's candidates" in driver.screen
        rows = [line for line in driver.screen.splitlines() if "µs" in line]
        assert all(word in rows[0] for word in ("addmm", "10.0 µs", "● picked"))
        assert all(word in rows[1] for word in ("20.0 µs", "99"))


def test_without_the_gpu_it_is_said_that_the_pick_is_not_known(library_of: Chosen) -> None:
    with SessionReader(library_of([library(0, "addmm"), library(1, "bias_addmm")])) as reader:
        table = candidates_table(reader, reader.rows(model.Kernel, language="extern")[0])
    assert UNKNOWN_LIBRARY_PICK in table.answer
    assert [row.cells[1] for row in table.rows] == ["addmm", "bias_addmm"]


@in_exhaustive_runs
async def test_a_library_call_that_was_not_chosen_says_so_and_asks_no_builder(
    template: Template, open_app: OpenApp
) -> None:
    with SessionReader(template.path) as reader, SessionWriter(template.path) as writer:
        (own,) = reader.rows(model.Kernel)
        listing = writer.text("def call():\n    extern_kernels.mm(a, b)\n")
        code = writer.add(
            model.Artifact(
                0,
                own.compilation,
                "output_code",
                "output_code",
                "forward",
                "",
                "python",
                listing,
                2,
            )
        )
        kernel = dataclasses.replace(
            own, id=0, position=1, name="extern_kernels.mm", language="extern", artifact=0
        )
        writer.add(dataclasses.replace(kernel, output_code=code, first_line=2))
        writer.add(model.LineNode(code, 2, template.written.graph.first_node, "call_site", 0))
    async with open_app(template.path, size=WIDE) as driver:
        await driver.press("6", "j", "v", "c")
        assert f"{NO_CHOICE} {TEMPLATES_MAY_BE}" in driver.screen
        await driver.press("6", "j", "p", "k")
        assert "the library chooses its kernel on the GPU" in notices(driver)
    assert template.builds.asked == []
