"""This module has the texts of graphs that plug-ins write (``plugins.GraphPane``), as further forms
of a graph beside its code and its table.
"""

from __future__ import annotations

from functools import partial
from typing import NewType

from fx_explorer import model
from fx_explorer.analysis.graph_python import GraphText
from fx_explorer.outside_file import shown_value
from fx_explorer.plugin_loading import Plugin, PluginFault, attempt, plugins_of
from fx_explorer.plugins import GraphPane, PaneText
from fx_explorer.session import SessionReader

PluginForm = NewType("PluginForm", str)
"""A form of a graph that a plug-in writes: ``pane:`` and the name of the plug-in."""

PREFIX = "pane:"


def plugin_forms(stage: model.Stage | None) -> list[PluginForm]:
    """Return the forms that plug-ins have for the graphs of a stage."""
    panes = plugins_of("panes", GraphPane)
    return [PluginForm(f"{PREFIX}{plugin.name}") for plugin in panes if _shows(plugin.offer, stage)]


def _shows(pane: GraphPane, stage: model.Stage | None) -> bool:
    return not pane.stages or stage in pane.stages


def is_plugin_form(kind: str) -> bool:
    return kind.startswith(PREFIX)


def plugin_form_title(form: str) -> str:
    """Return what the form shows: ``as DOT``; its name if its plug-in is not there any more."""
    plugin = _plugin_of(form)
    return plugin.offer.title if plugin else form.removeprefix(PREFIX)


def _plugin_of(form: str) -> Plugin[GraphPane] | None:
    name = form.removeprefix(PREFIX)
    return next((pane for pane in plugins_of("panes", GraphPane) if pane.name == name), None)


def write_plugin_text(reader: SessionReader, form: PluginForm, graph: model.Graph) -> GraphText:
    """Return a graph as the plug-in writes it; a text that says what happened if it fails."""
    plugin = _plugin_of(form)
    if plugin is None:
        return GraphText((f"The plug-in {form.removeprefix(PREFIX)} is no longer installed.",), {})
    text = attempt(plugin.installed, partial(_checked_text, plugin.offer, reader, graph))
    if isinstance(text, PluginFault):
        return GraphText((text.sentence[0].upper() + text.sentence[1:],), {})
    return text


def _checked_text(pane: GraphPane, reader: SessionReader, graph: model.Graph) -> GraphText:
    """Return what a plug-in writes. Raises TypeError and ValueError for what is no text of the
    graph.
    """
    text = pane.write(reader, graph)
    if not isinstance(text, PaneText):
        raise TypeError(f"it returned {shown_value(text)}, not an fx_explorer.plugins.PaneText")
    lines = tuple(text.lines)
    for line in lines:
        if not isinstance(line, str) or "\n" in line:
            raise TypeError(f"a line cannot be {shown_value(line)}")
    nodes = range(graph.first_node, graph.first_node + graph.node_count)
    for line_number, node in text.node_of_line.items():
        if line_number not in range(len(lines)) or node not in nodes:
            raise ValueError(
                f"node_of_line has line {shown_value(line_number)} with node {shown_value(node)}: "
                f"there are {len(lines):,} lines, and {len(nodes):,} nodes from {nodes.start}"
            )
    return GraphText(lines or ("",), dict(text.node_of_line))
