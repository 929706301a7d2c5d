"""What is said of a pair of kernels or of loop nests, besides why they are apart."""

from __future__ import annotations

from fx_explorer import model


def shared_buffers(row: model.UnfusedPair) -> str:
    """Return ``both access buf3, buf4 and 2 more``."""
    names = ", ".join(row.buffers[:4])
    more = f" and {len(row.buffers) - 4} more" if len(row.buffers) > 4 else ""
    return f"both access {names}{more}"


def known_from(row: model.UnfusedPair, names: tuple[str, str]) -> str:
    """Return a sentence on who refused to fuse a pair, which is called by ``names``."""
    if row.state == "not asked":
        return "Inductor does not try to fuse them."
    if row.state == "allowed":
        return "Inductor tried to fuse them, and no check refused."
    sentence = f"Inductor's check {row.check} says no, without a reason."
    if row.reason:
        sentence = f"Inductor says of {' and '.join(names)}: “{row.reason}” ({row.check})."
    if not row.is_exact:
        sentence += " The check was made on parts of them, before those were fused with others."
    return sentence


def row_key(row: model.UnfusedPair) -> str:
    """Return the key of the row of view v y that is about a pair."""
    return f"pair {row.id}"
