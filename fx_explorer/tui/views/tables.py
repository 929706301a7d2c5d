"""Every view that is a table. This is imported when the first of them is opened, because it needs
most of the analysis.
"""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.drawing.view_table import ViewTable
from fx_explorer.instruments.backends.view import backend_table, support_table
from fx_explorer.instruments.bench.view import bench_table
from fx_explorer.instruments.breaks.view import breaks_table
from fx_explorer.instruments.compile_time.flame_view import flame_table
from fx_explorer.instruments.compile_time.view import time_table
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.instruments.kernels.roofline_view import roofline_table
from fx_explorer.instruments.kernels.view import kernels_table
from fx_explorer.instruments.ledger.view import ledger_table
from fx_explorer.instruments.memory.step_view import step_memory_table
from fx_explorer.instruments.memory.view import memory_table
from fx_explorer.instruments.modules.view import modules_table
from fx_explorer.instruments.profile.view import profile_table
from fx_explorer.instruments.regions.view import regions_table
from fx_explorer.session import SessionReader
from fx_explorer.tui.views.console import console_table
from fx_explorer.tui.views.graphs import graphs_table
from fx_explorer.tui.views.sizes import sizes_table
from fx_explorer.tui.views.stages import stages_table

TABLES: dict[str, Callable[[SessionReader], ViewTable]] = {
    "graphs": graphs_table,
    "stages": stages_table,
    "breaks": breaks_table,
    "guards": guards_table,
    "kernels": kernels_table,
    "memory": memory_table,
    "step_memory": step_memory_table,
    "modules": modules_table,
    "regions": regions_table,
    "sizes": sizes_table,
    "backend": backend_table,
    "ledger": ledger_table,
    "flame": flame_table,
    "profile": profile_table,
    "roofline": roofline_table,
    "bench": bench_table,
    "support": support_table,
    "console": console_table,
    "time": time_table,
}
"""View → the function that makes its table."""
