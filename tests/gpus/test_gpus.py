"""These tests check the descriptions of GPUs, and the error for a description that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.gpus import HERE, find_gpu, known_gpus
from fx_explorer.model import CaptureRequest

TRANSFERS_PER_CLOCK = {"nvidia": 2, "amd": 4}


def described(tmp_path: Path, old: str = "", new: str = "") -> Path:
    """Return h100.toml with one value changed."""
    text = (HERE / "h100.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new))
    return path


def test_the_gpus_that_are_promised_are_there() -> None:
    assert {"h100", "h200", "a100", "l4", "b200", "mi300x"} <= set(known_gpus())


@pytest.mark.parametrize("name", known_gpus())
def test_every_number_has_a_source(name: str) -> None:
    gpu = find_gpu(name)
    numbers = {key for key, value in gpu.to_json().items() if isinstance(value, int)}
    assert set(gpu.sources) == numbers | {f"peak_flops.{kind}" for kind in gpu.peak_flops}
    assert all(len(source) > 20 for source in gpu.sources.values()), (
        "a source is a text, not the name of one"
    )


@pytest.mark.parametrize("name", known_gpus())
def test_bandwidth_is_what_clock_and_bus_give(name: str) -> None:
    gpu = find_gpu(name)
    transfers = TRANSFERS_PER_CLOCK[gpu.vendor] * gpu.memory_clock_hz
    assert gpu.memory_bandwidth == pytest.approx(transfers * gpu.memory_bus_bits / 8, rel=0.01)


@pytest.mark.parametrize("name", known_gpus())
def test_the_matrix_units_double_with_each_half_of_the_bits(name: str) -> None:
    peaks = find_gpu(name).peak_flops
    assert peaks["bf16"] == peaks["fp16"] == pytest.approx(2 * peaks["tf32"], rel=0.02)
    assert peaks["int8"] == pytest.approx(2 * peaks["fp16"], rel=0.01)


def test_a_gpu_survives_the_way_to_the_worker() -> None:
    request = CaptureRequest("m.py", "s.fxs", gpu=find_gpu("mi300x"))
    assert CaptureRequest.from_json(request.to_json()) == request


def test_a_request_without_gpu_is_still_read() -> None:
    old = json.loads(CaptureRequest("m.py", "s.fxs").to_json())
    del old["gpu"]
    assert CaptureRequest.from_json(json.dumps(old)).gpu is None


def test_names_are_found_in_any_case() -> None:
    assert find_gpu("H100") == find_gpu("h100")


def test_a_file_describes_another_gpu(tmp_path: Path) -> None:
    path = described(tmp_path, "multiprocessors = { value = 132", "multiprocessors = { value = 114")
    gpu = find_gpu(str(path.with_name("mine.toml")))
    assert (gpu.multiprocessors, gpu.arch) == (114, "sm_90")


def test_an_unknown_name_is_answered_with_what_there_is() -> None:
    with pytest.raises(
        UsageError,
        match=r"no GPU called 'h1000'; there are a100, b200, h100, h200, l4, mi300x\..*\.toml",
    ):
        find_gpu("h1000")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("H100 ", "h100"),
        ("h-100", "h100"),
        ("NVIDIA H100", "h100"),
        ("AMD Instinct MI300X", "mi300x"),
        ("MI_300X", "mi300x"),
    ],
)
def test_a_name_written_otherwise_is_recognised(written: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"\(did you mean {meant}\?\); there are a100"):
        find_gpu(written)


@pytest.mark.parametrize("name", ["", " ", "rtx4090", "a1000", "l40s", "/dev/null"])
def test_another_card_is_not_taken_for_one_of_ours(name: str) -> None:
    with pytest.raises(UsageError, match=r"no GPU called .*'; there are a100"):
        find_gpu(name)


def test_a_folder_is_no_description(tmp_path: Path) -> None:
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(UsageError, match="cannot be read: it is a directory"):
        find_gpu(str(folder))


def test_a_file_in_another_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'name = "\xff\xfe"')
    with pytest.raises(UsageError, match="is not a text in UTF-8"):
        find_gpu(str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no GPU file .*gone\.toml"):
        find_gpu(str(tmp_path / "gone.toml"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('arch = "sm_90"\n', "", "arch is missing"),
        (
            'vendor = "nvidia"',
            'vendor = "matrox"',
            "vendor cannot be 'matrox'; it is one of nvidia, amd",
        ),
        ("value = 132, source", "value = -1, source", "multiprocessors cannot be -1"),
        ("value = 132, source", "value = 0.5, source", "multiprocessors cannot be 0.5"),
        (
            '{ value = 132, source = "whitepaper" }',
            "132",
            "multiprocessors cannot be 132: each number is",
        ),
        ("capability = [9, 0]", "capability = [9]", "capability is two numbers"),
        ("capability = [9, 0]", "capability = 9", "capability cannot be 9: it is two numbers"),
        ("capability = [9, 0]", 'capability = ["9", "0"]', "capability cannot be ('9', '0')"),
        (
            "capability = [9, 0]",
            "capability = [8, 0]",
            "vendor 'nvidia' and capability [8, 0], which give sm_80",
        ),
        (
            'arch = "sm_90"',
            'arch = "gfx942"',
            "'gfx942' does not match vendor 'nvidia' and capability [9, 0], which give sm_90",
        ),
        (
            'vendor = "nvidia"',
            'vendor = "amd"',
            "'sm_90' does not match vendor 'amd' and capability [9, 0], which give gfx90…",
        ),
        (
            'arch = "sm_90"',
            'arch = "sm_90"\narch = "sm_80"',
            "is not valid TOML: Cannot overwrite a value",
        ),
        ("value = 132, source", f"value = {10**25}, source", f"multiprocessors cannot be {10**25}"),
        ("value = 132, source", "value = true, source", "multiprocessors cannot be True"),
        (
            "warp_size = { value = 32",
            "warp_size = { value = 33",
            "warp_size of nvidia cannot be 33",
        ),
        (
            "threads_per_block = { value = 1_024",
            "threads_per_block = { value = 4_096",
            "is more than threads_per_multi",
        ),
        ("bf16 = { value = 989.5e12", "bf16 = { value = -1", "peak_flops.bf16 cannot be -1.0"),
        ("bf16 = { value = 989.5e12", "bf16 = { value = nan", "peak_flops.bf16 cannot be nan"),
        ("[sources]", "[[sources]]", "sources is not a table: write it as [sources]"),
        ('name = "h100"', 'name = "../h100"', "name cannot be '../h100'"),
        ("clock_hz = {", "clok_hz = {", "memory_clock_hz is missing"),
        (
            "\n[sources]",
            "\n[colour]\n[sources]",
            ("colour is not a known entry; known are name, title"),
        ),
        ("[sources]", "[sources", "is not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_description_is_said(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = described(tmp_path, old, new)
    with pytest.raises(UsageError) as caught:
        find_gpu(str(path))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
