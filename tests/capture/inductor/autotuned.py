"""This module imitates a Triton kernel as Inductor writes it; torch's own autotuner runs it, but
building and timing, which need a GPU, are made up.
"""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path
from typing import Any

import pytest

SOURCE = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.pointwise(
    size_hints={'x': 1048576},
    filename=__file__,
    triton_meta={'signature': {'in_out_ptr0': '*fp32', 'in_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'},
                 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90, major=9,
                                            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32),
                 'constants': {}, 'configs': [{}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'triton_poi_fused_add_0', 'mutated_arg_names': ['in_out_ptr0'],
                   'force_disable_caches': True, 'autotune_pointwise': True},
    min_elem_per_thread=0,
)
@triton.jit
def triton_poi_fused_add_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tl.store(in_out_ptr0 + (xindex), tl.load(in_out_ptr0 + (xindex), xmask) + tl.load(in_ptr0 + (xindex), xmask), xmask)
"""
NAME = "triton_poi_fused_add_0"

MS = {1024: 0.025, 512: 0.020}
"""Made-up times of a block of each size."""

CACHE_KEY = "KEY{block}"
"""Key of a block's directory in Triton's cache."""


def autotuner_without_gpu(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """torch's own, but for building and timing."""
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)
    monkeypatch.setattr(CachingAutotuner, "_precompile_config", _precompile_config)
    monkeypatch.setattr(CachingAutotuner, "_make_launchers", _make_launchers)
    monkeypatch.setattr(
        CachingAutotuner,
        "bench",
        lambda autotuner, launcher, *_, **__: MS[launcher.config.kwargs["XBLOCK"]],
    )
    file = folder / "kernel.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, NAME)


def _precompile_config(autotuner: Any, config: Any) -> Any:
    return types.SimpleNamespace(config=config, kernel=types.SimpleNamespace(hash="00"))


def _make_launchers(autotuner: Any) -> None:
    autotuner.launchers = [_launcher(result.config) for result in autotuner.compile_results]


def _launcher(config: Any) -> Any:
    def launcher(*args: Any, stream: int) -> None:
        del args, stream

    block = config.kwargs["XBLOCK"]
    facts = {
        "config": config,
        "n_regs": block // 32,
        "n_spills": 3,
        "shared": 64,
        "store_cubin": False,
    }
    launcher.__dict__.update(facts, cache_hash=CACHE_KEY.format(block=block))
    return launcher
