"""This module has the queries that findings ask: what a graph repeats, and what it casts."""

from __future__ import annotations

from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL
from fx_explorer.session.reader import SessionReader


class RepeatedOperation(NamedTuple):
    """One operation of the source that stands several times in a graph."""

    target: str
    frames: tuple[model.Frame, ...]
    """The user's stack, outermost first."""
    times: int


def repeated_operations(
    reader: SessionReader, graph: model.Graph, least: int
) -> list[RepeatedOperation]:
    """Return the operations that stand ``least`` times or more in a graph, each with the same calls
    that led to it and within the same module.
    """
    rows = reader.query(
        f"SELECT target, stack, count(*) FROM node WHERE graph=? AND stack AND {IS_CALL} "
        "GROUP BY target, stack, module HAVING count(*) >= ?",
        (graph.id, least),
    )
    stacks = {row.id: row.frames for row in reader.by_ids(model.Stack, {row[1] for row in rows})}
    return [
        RepeatedOperation(target, stacks[stack], count)
        for target, stack, count in rows
        if stack in stacks
    ]


def modules_of_stacks(
    reader: SessionReader, graph: model.Graph
) -> list[tuple[str, tuple[model.Frame, ...]]]:
    """Return (module, user's stack) of a graph's operations, each pair once."""
    rows = reader.query(
        f"SELECT DISTINCT module, stack FROM node WHERE graph=? AND stack AND {IS_CALL}",
        (graph.id,),
    )
    stacks = {row.id: row.frames for row in reader.by_ids(model.Stack, {row[1] for row in rows})}
    return [(module, stacks[stack]) for module, stack in rows if stack in stacks]


CASTS = ("prims.convert_element_type.default", "aten._to_copy.default")


def casts_of_inputs(reader: SessionReader, compilation: int) -> list[tuple[int, int]]:
    """Return (input, cast) for each input that an inference graph of Inductor's casts to another
    dtype, as ids of nodes.
    """
    rows = reader.query(
        "SELECT given.id, node.id FROM graph JOIN node ON node.graph = graph.id JOIN edge ON "
        "edge.consumer = node.id JOIN node AS given ON given.id = edge.producer WHERE "
        "graph.compilation=? AND graph.stage='post_grad' AND graph.direction='inference' AND "
        "node.target IN (?, ?) AND given.op='placeholder' ORDER BY node.id",
        (compilation, *CASTS),
    )
    return [(given, cast) for given, cast in rows]


def devices_of_nodes(reader: SessionReader) -> set[str]:
    """Return the devices of all tensors in all graphs."""
    rows = reader.query("SELECT DISTINCT device FROM node WHERE device!=''")
    return {str(device) for (device,) in rows}
