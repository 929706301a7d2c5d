"""These tests check torch's tables of what each kernel computes: alone, in a package of
AOTInductor, and in a debug directory of an H100.
"""

from __future__ import annotations

import json
import random
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.whole_session import damage
from fx_explorer.errors import SessionError
from fx_explorer.overview.overview import overview
from fx_explorer.readers.debug_directory import is_debug_directory, read_directory
from fx_explorer.readers.provenance_table import format_provenance, read_provenance, read_table
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

DATA = Path(__file__).parents[2] / "data"

INFORMATION = DATA / "provenance" / "kernel_information.json"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory that torch 2.11 wrote for TORCH_COMPILE_DEBUG=1 while AOTInductor
    compiled two linear layers and a GELU for an H100.
    """
    folder = tmp_path_factory.mktemp("debug")
    with tarfile.open(DATA / "debug_directory" / "aot_inductor_h100.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "torch_compile_debug"


def mappings_of(directory: Path) -> Path:
    (file,) = directory.rglob("inductor_provenance_tracking_node_mappings.json")
    return file


def test_a_table_of_a_package_says_everything_of_each_call() -> None:
    told = json.loads(INFORMATION.read_text())
    table = read_provenance(INFORMATION.read_text())
    found = {kernel.handle: kernel for kernel in table.kernels}
    assert found.keys() == told.keys()
    for handle, kernel in found.items():
        assert list(kernel.computes) == told[handle]["post_grad_nodes"] != []
        assert list(kernel.made_of) == told[handle]["pre_grad_nodes"] != []
    text = format_provenance(table, {"cpp_fused_relu_0:2": 77})
    entry = text.partition("cpp_fused_relu_0, call 2, in line 77 of the wrapper\n")[2].partition(
        "\n\n"
    )[0]
    assert re.sub(r" +", " ", entry).splitlines() == [
        " computes relu, b_bias",
        " made of relu",
        " your line /home/user/model.py:8 in forward: h = torch.relu(s.a(x))",
    ]


def test_a_table_of_node_mappings_says_what_no_kernel_computes(directory: Path) -> None:
    told = json.loads(mappings_of(directory).read_text())
    table = read_provenance(mappings_of(directory).read_text())
    assert {kernel.handle: list(kernel.computes) for kernel in table.kernels} == told[
        "cppCodeToPost"
    ]
    assert (
        set(table.without_kernel)
        == told["postToPre"].keys() - told["postToCppCode"].keys()
        == {"permute", "permute_1"}
    )
    (fused,) = [
        kernel for kernel in table.kernels if kernel.name == "triton_poi_fused_addmm_gelu_0"
    ]
    assert set(fused.made_of) == {"gelu", "linear"}


@pytest.mark.parametrize("which", ["information", "mappings"])
def test_each_opens_alone(which: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = INFORMATION if which == "information" else mappings_of(directory)
    assert kind_of_file(file).kind == "provenance"
    assert cli.main(["explore", str(file)]) == 0
    assert (
        "For 4 calls of kernels and libraries it has the operations each computes"
        in capsys.readouterr().out
    )


def test_a_debug_directory_of_aotinductor_has_its_kernels_linked_to_the_graph(
    directory: Path, tmp_path: Path
) -> None:
    assert is_debug_directory(directory)
    read_directory(directory, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert damage(reader) == []
        told = json.loads(mappings_of(directory).read_text())["cppCodeToPost"]
        for kernel in reader.rows(model.Kernel):
            wanted = {
                name
                for handle, names in told.items()
                if handle.startswith(f"{kernel.name}:")
                for name in names
            }
            line = next(iter(reader.rows(model.KernelCall, kernel=kernel.id))).line
            nodes = [
                link.node
                for link in reader.rows(model.LineNode, artifact=kernel.output_code, line=line)
            ]
            assert {node.name for node in reader.by_ids(model.Node, nodes)} == wanted != set()
            assert kernel.language == "extern" or "@triton.jit" in reader.text(
                reader.get(model.Artifact, kernel.artifact).text
            )
        assert reader.count(model.Kernel) == len(told)
        (table,) = [
            row for row in reader.rows(model.Artifact) if row.title == "What each kernel computes"
        ]
        assert "triton_poi_fused_addmm_gelu_0, call 2" in reader.text(table.text)


def package_of(tmp_path: Path, information: str) -> Path:
    wrapper = """\
void AOTInductorModel::run_impl(
    // [Provenance debug handles] cpp_fused_relu_0:2
    cpp_fused_relu_0((float*)(buf1.data_ptr()));
} // AOTInductorModel::run_impl
"""
    kernels = 'extern "C"  void cpp_fused_relu_0(float* in_out_ptr0)\n{\n    return;\n}\n'
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/data/aotinductor/model/a.wrapper.cpp", wrapper)
        archive.writestr("m/data/aotinductor/model/b.kernel.cpp", kernels)
        archive.writestr("m/data/aotinductor/model/kernel_information.json", information)
    return path


def test_a_package_has_its_kernels_split_out_and_the_table_names_their_calls(
    tmp_path: Path,
) -> None:
    session = tmp_path / "s.fxs"
    assert (
        cli.main(
            ["capture", str(package_of(tmp_path, INFORMATION.read_text())), "-o", str(session)]
        )
        == 0
    )
    with SessionReader(session) as reader:
        (kernel,) = reader.rows(model.Kernel)
        assert (kernel.name, kernel.language) == ("cpp_fused_relu_0", "cpp")
        assert reader.text(reader.get(model.Artifact, kernel.artifact).text).startswith(
            'extern "C"'
        )
        assert [call.line for call in reader.rows(model.KernelCall)] == [3]
        (table,) = [
            row for row in reader.rows(model.Artifact) if row.title == "What each kernel computes"
        ]
        assert "cpp_fused_relu_0, call 2, in line 3 of the wrapper" in reader.text(table.text)
        assert "What each kernel computes" in " ".join(fact.detail for fact in overview(reader))


def test_a_package_with_a_damaged_table_opens_without_it(tmp_path: Path) -> None:
    session = tmp_path / "s.fxs"
    assert (
        cli.main(
            [
                "capture",
                str(package_of(tmp_path, INFORMATION.read_text()[:-40])),
                "-o",
                str(session),
            ]
        )
        == 0
    )
    with SessionReader(session) as reader:
        titles = [row.title for row in reader.rows(model.Artifact)]
        assert "What each kernel computes" not in titles
        assert "Metadata · kernel_information.json" in titles


VALUES: tuple[Any, ...] = (
    None,
    -1,
    "x",
    "",
    [],
    {},
    True,
    [[1]],
    {"a": 1},
    10**30,
    "\x1b[2J",
    'File "a", line 99999999999, in b\n',
)


def test_damaged_tables_open_or_say_why_not(directory: Path, tmp_path: Path) -> None:
    texts = [INFORMATION.read_text(), mappings_of(directory).read_text()]
    opened, refused = 0, []
    for seed in range(200):
        chance = random.Random(seed)
        found = json.loads(texts[seed % 2])
        at = found
        while isinstance(at, dict | list) and at and chance.random() < 0.8:
            key: Any = chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if not isinstance(at[key], dict | list) or chance.random() < 0.3:
                at[key] = chance.choice(VALUES)
                break
            at = at[key]
        text = json.dumps(found)
        file = tmp_path / "x.json"
        file.write_text(text if seed % 4 else text[: chance.randrange(len(text))])
        session = tmp_path / f"{seed}.fxs"
        try:
            read_table(file, session)
        except SessionError as error:
            refused.append(str(error))
            continue
        opened += 1
        with SessionReader(session) as reader:
            assert overview(reader)
    assert opened > 100
    assert all("was not written by torch" in one for one in refused)
