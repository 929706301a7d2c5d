"""These fixtures capture each model once for the whole folder; Inductor compiles only where the
test is about Inductor.
"""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.fx.passes.regional_inductor import regional_inductor

from tests.precompile.models import MLP, Compiled, Transformer, compiled


@pytest.fixture(autouse=True, scope="package")
def _torch_may_warn_of_its_own_code() -> None:
    """Inductor imports torch.jit lazily, in the middle of a test, and that warns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)


@pytest.fixture(scope="package")
def mlp() -> Compiled:
    torch.manual_seed(0)
    return compiled(MLP(), torch.randn(3, 8))


@pytest.fixture(scope="package")
def transformer() -> Compiled:
    torch.manual_seed(0)
    return compiled(Transformer(), torch.randn(2, 5, 16), compiler=regional_inductor)
