"""Every view that is a table. This is imported when the first of them is opened, because it needs
most of the analysis.
"""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.session import SessionReader
from fx_explorer.tui.views.backend import backend_table
from fx_explorer.tui.views.breaks import breaks_table
from fx_explorer.tui.views.console import console_table
from fx_explorer.tui.views.graphs import graphs_table
from fx_explorer.tui.views.guards import guards_table
from fx_explorer.tui.views.kernels import kernels_table
from fx_explorer.tui.views.memory import memory_table
from fx_explorer.tui.views.modules.module_table import modules_table
from fx_explorer.tui.views.performance.bench import bench_table
from fx_explorer.tui.views.performance.flame import flame_table
from fx_explorer.tui.views.performance.ledger import ledger_table
from fx_explorer.tui.views.performance.profile import profile_table
from fx_explorer.tui.views.performance.roofline import roofline_table
from fx_explorer.tui.views.performance.step_memory import step_memory_table
from fx_explorer.tui.views.performance.time import time_table
from fx_explorer.tui.views.regions import regions_table
from fx_explorer.tui.views.sizes import sizes_table
from fx_explorer.tui.views.stages import stages_table
from fx_explorer.tui.views.support import support_table
from fx_explorer.tui.views.table import Table

TABLES: dict[str, Callable[[SessionReader], Table]] = {
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
