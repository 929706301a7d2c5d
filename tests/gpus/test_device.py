"""These tests check that the GPU of a real session is found, by its name or by the properties that
torch read.
"""

from __future__ import annotations

import pytest

from fx_explorer.gpus import CLOCK_TIMES_BUS, NOT_TOLD, find_gpu, gpu_like

RTX_4090: dict[str, object] = {
    "major": 8,
    "minor": 9,
    "multi_processor_count": 128,
    "warp_size": 32,
    "regs_per_multiprocessor": 65536,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 101376,
    "shared_memory_per_multiprocessor": 102400,
    "max_threads_per_multi_processor": 1536,
    "max_threads_per_block": 1024,
    "L2_cache_size": 75497472,
    "total_memory": 25393692672,
    "clock_rate": 2520000,
    "memory_clock_rate": 10501000,
    "memory_bus_width": 384,
    "gcnArchName": "NVIDIA GeForce RTX 4090",
}

MI300X: dict[str, object] = {
    "major": 9,
    "minor": 4,
    "multi_processor_count": 304,
    "warp_size": 64,
    "max_threads_per_multi_processor": 2048,
    "L2_cache_size": 4194304,
    "total_memory": 206141652992,
    "clock_rate": 2100000,
    "memory_clock_rate": 1300000,
    "memory_bus_width": 8192,
    "gcnArchName": "gfx942:sramecc+:xnack-",
}


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_described_gpu_is_found_by_the_name_of_the_device(device: str, name: str) -> None:
    assert gpu_like(device, {}) == find_gpu(name)


def test_a_device_of_that_name_with_other_counts_is_described_by_itself() -> None:
    found = gpu_like("NVIDIA L4", {**RTX_4090, "multi_processor_count": 29})
    assert found is not None
    assert found.multiprocessors == 29


def test_another_gpu_is_what_torch_read_off_it() -> None:
    found = gpu_like("NVIDIA GeForce RTX 4090", RTX_4090)
    assert found is not None
    assert (found.arch, found.shared_per_block, found.threads_per_multiprocessor) == (
        "sm_89",
        101376,
        1536,
    )
    assert found.memory_bandwidth == pytest.approx(1008e9, rel=0.001), (
        "NVIDIA's data sheet: 1008 GB/s"
    )
    assert found.sources["memory_bandwidth"] == CLOCK_TIMES_BUS.format(transfers=2)
    assert found.peak_flops == {}, "nobody reads those off a device"


def test_limits_of_the_compute_capability_are_those_of_a_described_gpu_of_it() -> None:
    found, l4 = gpu_like("NVIDIA GeForce RTX 4090", RTX_4090), find_gpu("l4")
    assert found is not None
    for field in (
        "registers_per_thread",
        "register_granularity",
        "shared_granularity",
        "shared_reserved_per_block",
    ):
        assert getattr(found, field) == getattr(l4, field), field
    assert found.blocks_per_multiprocessor == l4.blocks_per_multiprocessor


def test_bandwidth_that_the_driver_does_not_tell_is_not_guessed() -> None:
    found = gpu_like("NVIDIA GeForce RTX 4090", {**RTX_4090, "memory_clock_rate": 0})
    assert found is not None
    assert (found.memory_bandwidth, found.sources["memory_bandwidth"]) == (0, NOT_TOLD)


def test_limits_of_an_amd_architecture_are_those_of_the_described_gpu_of_it() -> None:
    """A card of the same architecture that nobody has described: what is not read off it is as on
    the MI300X.
    """
    found, described = (
        gpu_like("AMD Instinct MI325X", {**MI300X, "total_memory": 274877906944}),
        find_gpu("mi300x"),
    )
    assert found is not None
    assert found.peak_flops == {}
    of_the_card = {
        "name",
        "title",
        "device_name",
        "memory_bytes",
        "memory_bandwidth",
        "peak_flops",
        "sources",
    }
    for field, value in described.to_json().items():
        if field not in of_the_card:
            assert found.to_json()[field] == value, field
    assert found.memory_bandwidth == pytest.approx(described.memory_bandwidth, rel=0.01)
    numbers = {field for field, value in found.to_json().items() if isinstance(value, int)}
    assert set(found.sources) == numbers


def test_bandwidth_of_an_mi250x_is_that_of_its_data_sheet() -> None:
    one_die = {
        **MI300X,
        "multi_processor_count": 110,
        "memory_clock_rate": 1600000,
        "memory_bus_width": 4096,
    }
    found = gpu_like(
        "AMD Instinct MI250X", {**one_die, "minor": 0, "gcnArchName": "gfx90a:sramecc+:xnack-"}
    )
    assert found is not None
    assert found.arch == "gfx90a"
    assert 2 * found.memory_bandwidth == pytest.approx(3.2768e12), (
        "AMD's data sheet, for both dies: 3.2768 TB/s"
    )


@pytest.mark.parametrize("change", [{"major": 99}, {"gcnArchName": "gfx1100"}, {"warp_size": 0}])
def test_of_a_gpu_whose_limits_are_not_known_there_is_none(change: dict[str, object]) -> None:
    assert gpu_like("a GPU", {**RTX_4090, **change}) is None
    assert gpu_like("a GPU", {}) is None
