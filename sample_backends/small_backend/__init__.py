"""A backend for torch.compile, the smallest that deserves the name: the tutorial of docs/extend/backends.md in code.

Read the files in the order in which a graph passes through them: ``backend.py`` (the whole way in
50 lines), ``operators.py`` and ``support.py`` (what it can do), ``partition.py`` (cut), ``lowering/``
and ``program.py`` (instructions), ``artefact.py`` and ``cache.py`` (written down), ``library.py`` and
``runtime/`` (machine code), ``segment.py`` (the call).
"""

from sample_backends.small_backend.backend import small
from sample_backends.small_backend.errors import ArtefactRefused, NoRuntime, SmallBackendError

__all__ = ["ArtefactRefused", "NoRuntime", "SmallBackendError", "small"]
