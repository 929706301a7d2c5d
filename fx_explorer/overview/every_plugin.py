"""This module loads every plug-in that is installed, as doctor does: what is loaded is checked."""

from __future__ import annotations

from fx_explorer.findings.every_kind import every_kind
from fx_explorer.gpus import known_gpus
from fx_explorer.overview.plugin_tables import plugin_sections
from fx_explorer.plugin_loading import plugins_of
from fx_explorer.plugins import FileReader, GraphPane


def load_all_plugins() -> None:
    """Load all plug-ins. What is wrong with them is among ``plugin_loading.faults``."""
    plugins_of("readers", FileReader)
    plugins_of("panes", GraphPane)
    every_kind()
    plugin_sections()
    known_gpus()
