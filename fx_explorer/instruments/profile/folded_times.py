"""This module reads the times of a graph's nodes for its listing folded by module."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.instruments.modules.folded_listing import GraphSeconds
from fx_explorer.instruments.profile.figures import graph_times, profiled_places
from fx_explorer.session import SessionReader


def graph_seconds(reader: SessionReader, graph: model.Graph) -> GraphSeconds | None:
    """Return the times of the nodes; None where no profile has one."""
    places = profiled_places(reader)
    if places is None:
        return None
    times = graph_times(reader, graph, places)
    if not times.whole.seconds:
        return None
    return GraphSeconds(times.seconds, times.whole.seconds)
