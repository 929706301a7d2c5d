"""These tests check a package of AOTInductor: its code is shown, and nothing of it is loaded or
run.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.documents import documents, text_of
from fx_explorer.cli import main
from fx_explorer.session import SessionReader
from tests.exhaustive import with_others
from tests.tui.conftest import OpenApp, apps_for_tests, open_app

__all__ = ["apps_for_tests", "open_app"]

WRAPPER = "// the wrapper\nint main() { return 0; }\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package written by hand, for a GPU, with parts that a CPU's package does not have."""
    path = tmp_path / "gpu.pt2"
    folder = "gpu/data/aotinductor/model"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gpu/archive_format", "pt2")
        archive.writestr(f"{folder}/cabc.wrapper.cpp", WRAPPER)
        archive.writestr(f"{folder}/cabc.wrapper.so", b"\x7fELF\0\0")
        archive.writestr(f"{folder}/triton_kernel.cubin", b"\x7fELF\1\1")
        archive.writestr(f"{folder}/cabc.wrapper_metadata.json", '{"AOTI_DEVICE_KEY": "cuda"}')
        archive.writestr("gpu/data/aotinductor/other/x.wrapper.cpp", "// \x1b[31mred\n")
    return path


def kept(package: Path, session: Path) -> SessionReader:
    assert main(["capture", str(package), "-o", str(session)]) == 0
    return SessionReader(session)


@pytest.mark.parametrize("name", [[], ["forward"]])
def test_asked_for_a_graph_it_says_what_it_has_instead(
    package: Path, name: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(package), *name]) == (2 if name else 0)
    printed = capsys.readouterr()
    told = printed.err if name else printed.out
    assert "An AOTInductor package has no graph" in told
    assert "torch.export.save" in told
    for document in (
        "Wrapper · cabc.wrapper.cpp",
        "Metadata · cabc.wrapper_metadata.json",
        "Wrapper · x.wrapper.cpp",
    ):
        assert document in told


def test_its_texts_are_documents_and_its_binaries_are_listed(package: Path, tmp_path: Path) -> None:
    with kept(package, tmp_path / "s.fxs") as reader:
        found = documents(reader)
        assert [(one.owner, one.title, one.language) for one in found] == [
            ("model", "Wrapper · cabc.wrapper.cpp", "cpp"),
            ("model", "Metadata · cabc.wrapper_metadata.json", "json"),
            ("model", "Files of the package", "text"),
            ("other", "Wrapper · x.wrapper.cpp", "cpp"),
            ("other", "Files of the package", "text"),
        ]
        assert text_of(reader, found[0]) == WRAPPER
        assert '"AOTI_DEVICE_KEY": "cuda"' in text_of(reader, found[1])
        assert [line.split() for line in text_of(reader, found[2]).splitlines()][:4] == [
            [str(len(WRAPPER)), "data/aotinductor/model/cabc.wrapper.cpp"],
            ["6", "data/aotinductor/model/cabc.wrapper.so"],
            ["6", "data/aotinductor/model/triton_kernel.cubin"],
            ["27", "data/aotinductor/model/cabc.wrapper_metadata.json"],
        ]


def test_it_is_looked_at_without_trust_and_without_a_worker(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("subprocess.Popen.__init__", never)
    monkeypatch.setattr("asyncio.create_subprocess_exec", never)
    assert main([str(package)]) == 0
    assert (
        "gpu.pt2 is an AOTInductor package with 2 compiled models: model and other."
        in capsys.readouterr().out
    )
    assert main(["report", str(package), "--format", "json"]) == 0


def test_a_damaged_text_is_told_with_exit_code_5(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = package.read_bytes()
    package.write_bytes(content.replace(b"// the wrapper", b"// the wrapped", 1))
    assert main([str(package)]) == 5
    assert (
        "is damaged: data/aotinductor/model/cabc.wrapper.cpp cannot be read (Bad CRC-32"
        in capsys.readouterr().err
    )


def test_the_table_of_contents_is_not_read_for_every_text(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(package, "a") as archive:
        for i in range(50):
            archive.writestr(f"gpu/data/aotinductor/model/{i}.kernel.cpp", "int x;\n")
    opened: list[object] = []

    class Counted(zipfile.ZipFile):
        def __init__(self, path: Path) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(zipfile, "ZipFile", Counted)
    with kept(package, tmp_path / "s.fxs") as reader:
        assert len(documents(reader)) == 55
    assert len(opened) < 10


async def test_the_app_shows_its_code(package: Path, tmp_path: Path, open_app: OpenApp) -> None:
    kept(package, tmp_path / "s.fxs").close()
    async with open_app(tmp_path / "s.fxs") as driver:
        assert "AOTInductor package" in driver.screen
        await driver.press("2")
        assert "// the wrapper" in driver.screen


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own, of its pytree
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a C++ compiler")
@pytest.mark.parametrize("is_built", with_others([False], [True]))
def test_a_real_package_is_shown_as_torch_wrote_it(tmp_path: Path, is_built: bool) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(4, 8),))
    path = torch._inductor.aoti_compile_and_package(
        program,
        package_path=str(tmp_path / "real.pt2"),
        inductor_configs={"aot_inductor.package_cpp_only": not is_built},
    )
    with kept(Path(path), tmp_path / "s.fxs") as reader, zipfile.ZipFile(path) as archive:
        shown = {
            text_of(reader, one)
            for one in documents(reader)
            if one.language == "cpp" and one.stage != "kernel"
        }
        written = {
            archive.read(name).decode() for name in archive.namelist() if name.endswith(".cpp")
        }
        assert shown == written
        assert written
        (kernel,) = reader.rows(model.Kernel)
        if is_built:  # without, the source of the kernel is in a file of its own
            source = reader.text(reader.get(model.Artifact, kernel.artifact).text)
            assert any(source in text for text in written)
        (row,) = reader.rows(model.Compilation)
        assert row.backend == "aot_inductor"
