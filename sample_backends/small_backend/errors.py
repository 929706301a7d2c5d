"""What can go wrong, as exceptions whose message is one sentence for the user."""

from __future__ import annotations


class SmallBackendError(Exception):
    """Base of the backend's own exceptions."""


class NoRuntime(SmallBackendError):
    """The library of kernels cannot be built or is not the one that is needed."""


class ArtefactRefused(SmallBackendError):
    """An artefact is truncated, altered, of another version, or made for something else."""
