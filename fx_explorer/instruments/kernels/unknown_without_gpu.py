"""Sentences on what cannot be known without the GPU, for the places where it matters."""

from __future__ import annotations

PICK = (
    "Which configuration the autotuner would pick is not known: it times them on the GPU. "
    "All of them are shown."
)
RUN_TIME = (
    "How long it takes is not known: nothing ran. The estimate is the least time that the "
    "data sheet allows."
)
PADDING = (
    "Whether a matrix would be padded is not known: that is decided by timing it on the GPU. "
    "Nothing is padded here."
)
LIBRARY = (
    "A library call: which kernel the library runs, and what it looks like inside, is "
    "decided on the GPU."
)
LIBRARY_PICK = (
    "Which of them the autotuner would pick is not known: it times them on the GPU. The "
    "first is shown."
)
TEMPLATE_OR_LIBRARY = (
    "Whether a template or a library would be taken is not known: they are timed on the GPU. "
    "A template is shown."
)
TEMPLATE_ALONE = (
    "Some configurations of the template are shown without the operations that are fused "
    "into the first."
)
SDPA = "Which attention kernel would be chosen is decided by our copy of the rules of a CUDA build."
NO_GPU = "This session was not captured for a GPU: capture it with --gpu h100, for example."
NO_SASS_ON_AMD = "AMD's machine code is the AMDGCN text: there is no level below it."
