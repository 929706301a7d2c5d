"""These tests check in which states of torch a compiled function may be called: eager, in the same
state, is the second source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.utils.checkpoint

from fx_explorer.precompile import GuardError, Precompile
from tests.exhaustive import in_exhaustive_runs, one_of, with_others
from tests.precompile.models import Compiled, compiled, eager

FORWARD_ONLY = [torch.no_grad, torch.inference_mode]


class Saved:
    """Saved lists the tensors that autograd keeps for a backward while it is open."""

    def __init__(self) -> None:
        self.count = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[Saved]:
        def pack(tensor: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield self


MODELS = with_others(["mlp", "transformer loaded"], ["mlp loaded", "transformer"])
"""The regions of the transformer are compiled one by one; both go the same way from a file."""


@pytest.fixture(params=MODELS, scope="module")
def trained(
    request: pytest.FixtureRequest,
    mlp: Compiled,
    transformer: Compiled,
    tmp_path_factory: pytest.TempPathFactory,
) -> object:
    """``(model, inputs, compiled_fn)``, compiled for training, and the same from a file."""
    name, _, loaded = request.param.partition(" ")
    found = {"mlp": mlp, "transformer": transformer}[name]
    if not loaded:
        return found.model, found.inputs, found.run
    path = Precompile.save(found.run, tmp_path_factory.mktemp("states") / "saved.pt2")
    return found.model, found.inputs, Precompile.load(path, found.model)


Trained = tuple[torch.nn.Module, tuple[torch.Tensor, ...], Callable[..., torch.Tensor]]


@pytest.mark.parametrize("without", one_of(2, FORWARD_ONLY))
def test_what_was_compiled_for_training_runs_without_gradients_and_saves_nothing(
    trained: Trained, without: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    model, inputs, run = trained
    with without(), Saved().counting() as saved:
        for given in (inputs, list(inputs), inputs[0]):
            ours = run(given)
            assert torch.allclose(ours, model(*inputs), atol=1e-5)
            assert ours.grad_fn is None
            assert not ours.requires_grad
            assert ours.is_inference() == torch.is_inference_mode_enabled()
        assert torch.allclose(
            run([torch.ones_like(inputs[0])]), model(torch.ones_like(inputs[0])), atol=1e-5
        )
    assert saved.count == 0
    with Saved().counting() as saved:
        assert run(inputs).requires_grad
    assert saved.count > 0


class Asking(torch.nn.Module):
    """Does something else without gradients."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            return x * 2
        return x * 3


class AskingATensor(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.scale
        return y.sin() if y.requires_grad else y.cos()


class Telling(AskingATensor):
    """Tensors are the same; what else it returns is not."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        return x * self.scale, torch.is_grad_enabled()


class Remembering(AskingATensor):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.was_training = torch.is_grad_enabled()
        return x * self.scale


class TurningOn(AskingATensor):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return x * self.scale


@pytest.mark.parametrize(
    "kind", one_of(2, [Asking, AskingATensor, Telling, Remembering, TurningOn])
)
@pytest.mark.parametrize("without", FORWARD_ONLY)
def test_a_model_that_does_something_else_without_gradients_is_refused_by_name(
    kind: type[torch.nn.Module], without: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    found = compiled(kind(), torch.ones(3), compiler=eager)
    found.run(found.inputs)
    for _ in range(2):
        with (
            without(),
            pytest.raises(
                GuardError, match=r"gradients were on before, and are off now, and the model"
            ) as raised,
        ):
            found.run(found.inputs)
        found.run(found.inputs)
    assert "under torch.no_grad()" in str(raised.value)
    if kind is Asking:
        assert f"{__file__}:" in str(raised.value)
        assert "`return x * 3`" in str(raised.value)


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(a, b)
        return a.sin(), a * b

    @staticmethod
    def backward(
        ctx: object, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        return first * a.cos() + second * b, second * a


class Everything(torch.nn.Module):
    """An autograd.Function, checkpointing, inner no_grad, batch norm, a view, a buffer that is
    changed, a constant.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, object]:
        with torch.no_grad():
            self.calls.add_(1)
            largest = x.abs().max()
        first, second = Custom.apply(self.linear(x), x)
        third = torch.utils.checkpoint.checkpoint(torch.tanh, first, use_reentrant=False)
        return {
            "y": self.norm(third + second) * scale + torch.tensor([1.0, 2.0, 3.0, 4.0]),
            "view": x.view(-1),
            "largest": largest,
        }


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("without", FORWARD_ONLY)
def test_what_only_looks_different_without_gradients_runs(
    without: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    torch.manual_seed(0)
    found = compiled(Everything(), torch.randn(6, 4), compiler=eager)
    twin = Everything()
    twin.load_state_dict(found.model.state_dict())
    with without():
        for x in (found.inputs[0], torch.randn(6, 4)):
            ours, theirs = found.run([x]), twin(x)
            assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)
            assert ours["view"].data_ptr() == x.data_ptr()
            assert all(value.grad_fn is None for value in ours.values())
    assert found.model.calls == twin.calls == 2
    assert torch.allclose(found.model.norm.running_mean, twin.norm.running_mean)
    assert found.run(found.inputs)["y"].requires_grad


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_an_input_that_requires_gradients_is_changed_in_place_without_them() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x + 1

    x = (torch.ones(2, 3, requires_grad=True) * 1).clone()
    found = compiled(model, x, compiler=eager)
    ours, theirs = (torch.ones(2, 3, requires_grad=True).clone() for _ in range(2))
    with torch.no_grad():
        assert torch.equal(found.run([ours]), model(theirs))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("without", FORWARD_ONLY)
def test_what_was_compiled_without_gradients_says_so_when_they_are_asked_for(
    without: Callable[[], contextlib.AbstractContextManager[None]], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
    with without():
        found = compiled(model, x)
        assert torch.allclose(found.run(found.inputs), model(x))
    loaded = Precompile.load(Precompile.save(found.run, tmp_path / "linear.pt2"), model)
    for run in (found.run, loaded):
        with pytest.raises(
            GuardError, match=r"compiled without gradients: .* are required now by .*weight"
        ) as raised:
            run(found.inputs)
        assert "Call it under torch.no_grad()" in str(raised.value)
        for again in FORWARD_ONLY:
            with again():
                assert torch.allclose(run(found.inputs), model(x))
                assert torch.allclose(run([torch.ones(3, 4)]), model(torch.ones(3, 4)))
    model.requires_grad_(False)
    with pytest.raises(GuardError, match=r"requires_grad mismatch.*which no longer requires them"):
        found.run(found.inputs)


class Attending(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


@pytest.mark.parametrize(
    "kind",
    with_others(
        [lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)], [Attending]
    ),
)
def test_the_fast_path_of_attention_in_eval_mode_is_no_other_result(
    kind: Callable[[], torch.nn.Module],
) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    found = compiled(model, torch.randn(2, 3, 8), compiler=eager)
    with torch.no_grad():
        assert torch.allclose(found.run(found.inputs), model(*found.inputs), atol=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()


@in_exhaustive_runs
def test_with_a_padding_mask_the_fast_path_computes_less_and_is_refused() -> None:
    """Without gradients torch.nn gives zeros for the padding, with them numbers. torch 2.11 cannot
    trace that, and says why.
    """
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    gm, _, guards, inputs = Precompile.dynamo(
        layer, torch.randn(1, 2, 8), kwargs={"src_key_padding_mask": torch.tensor([[False, True]])}
    )
    run, _ = Precompile.aot_autograd(gm, guards, compiler=eager)
    with (
        torch.no_grad(),
        pytest.raises(
            GuardError, match=r"_transformer_encoder_layer_fwd|cannot be traced in this state"
        ),
    ):
        run(inputs)


def contiguous_without_gradients(x: torch.Tensor) -> torch.Tensor:
    y = x if torch.is_grad_enabled() else x.contiguous()
    return y.t()


def changed_after_contiguous(x: torch.Tensor) -> torch.Tensor:
    y = (x + 1).t()
    z = y if torch.is_grad_enabled() else y.contiguous()
    z.add_(1)
    return y


@pytest.mark.parametrize("model", [contiguous_without_gradients, changed_after_contiguous])
def test_a_copy_that_can_be_told_from_its_source_is_refused(
    model: Callable[..., torch.Tensor],
) -> None:
    found = compiled(model, torch.ones(2, 3), compiler=eager)
    with torch.no_grad(), pytest.raises(GuardError, match="contiguous"):
        found.run(found.inputs)


def test_what_was_captured_under_no_grad_runs_where_gradients_are_on_and_nothing_requires_them() -> (
    None
):
    model, x = torch.nn.Linear(4, 2).requires_grad_(False), torch.randn(3, 4)
    with torch.no_grad():
        found = compiled(model, x, compiler=eager)
    assert torch.allclose(found.run(found.inputs), model(x))
    with pytest.raises(
        GuardError, match=r"compiled without gradients for that tensor, so they would be lost"
    ):
        found.run([torch.randn(3, 4, requires_grad=True)])


@pytest.mark.parametrize("name", ["weight", "input"])
def test_gradients_that_nothing_asked_for_at_the_capture_are_not_lost_silently(name: str) -> None:
    model, x = torch.nn.Linear(4, 2).requires_grad_(False), torch.randn(3, 4)
    found = compiled(model, x, compiler=eager)
    (model.weight if name == "weight" else x).requires_grad_(True)
    for given in (found.inputs, [x]):
        with pytest.raises(
            GuardError, match=r"requires_grad mismatch.*compiled without gradients for that tensor"
        ):
            found.run(given)


def test_a_model_in_another_mode_is_refused_without_gradients_too(trained: Trained) -> None:
    found = compiled(torch.nn.Dropout(0.5), torch.ones(4), compiler=eager)
    with torch.no_grad():
        found.run(found.inputs)
        found.model.eval()
        with pytest.raises(GuardError, match="training"):
            found.run(found.inputs)
        found.model.train()
        found.run(found.inputs)


# the rest of the state


@pytest.fixture
def restored() -> Iterator[None]:
    before = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
    )
    yield
    torch.set_default_dtype(before[0])
    torch.set_num_threads(before[1])
    torch.set_float32_matmul_precision(before[2])
    torch.use_deterministic_algorithms(False)
    torch.set_autocast_cache_enabled(True)


def one_more_thread() -> None:
    torch.set_num_threads(torch.get_num_threads() + 1)


def another_precision() -> None:
    torch.set_float32_matmul_precision("high")


def without_autocast_cache() -> None:
    torch.set_autocast_cache_enabled(False)


def another_dtype() -> None:
    torch.set_default_dtype(torch.float64)


def deterministic() -> None:
    torch.use_deterministic_algorithms(True)


CHANGES = [one_more_thread, another_precision, without_autocast_cache, another_dtype]


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("change", one_of(2, CHANGES))
def test_a_state_that_changes_nothing_about_the_result_is_no_reason_to_refuse(
    trained: Trained, change: Callable[[], None]
) -> None:
    model, inputs, run = trained
    before = model(*inputs)
    change()
    assert torch.allclose(run(inputs), before, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(run(inputs), model(*inputs), atol=1e-5)


def factory(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(3)


def a_float_times_integers(x: torch.Tensor) -> torch.Tensor:
    return (x.long() * 0.5).to(x.dtype)


def asking_for_the_dtype(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if torch.get_default_dtype() is torch.float32 else x * 3


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("model", [factory, a_float_times_integers, asking_for_the_dtype])
def test_a_default_dtype_that_decides_something_is_refused_with_the_line(
    model: Callable[..., object],
) -> None:
    found = compiled(model, torch.ones(3), compiler=eager)
    another_dtype()
    with pytest.raises(
        GuardError,
        match=r"default dtype was torch.float32 before, and is torch.float64 now.*test_states.py:\d+: `return",
    ):
        found.run(found.inputs)
    torch.set_default_dtype(torch.float32)
    found.run(found.inputs)


@pytest.mark.usefixtures("restored")
def test_deterministic_algorithms_are_refused_when_asked_for_later_and_not_when_given_up() -> None:
    found = compiled(lambda x: x * 2, torch.ones(3), compiler=eager)
    deterministic()
    with pytest.raises(
        GuardError,
        match=(
            "use_deterministic_algorithms was off before, and is on now, and the code was "
            "chosen without"
        ),
    ):
        found.run(found.inputs)
    strict = compiled(lambda x: x * 2, torch.ones(3), compiler=eager)
    torch.use_deterministic_algorithms(False)
    assert torch.equal(strict.run(strict.inputs), torch.full((3,), 2.0))


def test_autocast_that_is_on_is_refused(mlp: Compiled) -> None:
    with (
        torch.autocast("cpu"),
        pytest.raises(GuardError, match="autocast has changed, and operations are cast otherwise"),
    ):
        mlp.run(mlp.inputs)
    mlp.run(mlp.inputs)


def test_guards_answer_as_the_function_does_and_print_the_state_of_the_capture(
    mlp: Compiled,
) -> None:
    written = str(mlp.rebuilt)
    with torch.no_grad():
        assert mlp.guards.check(*mlp.inputs)
        assert mlp.rebuilt.why_not(*mlp.inputs) == ""
        assert "size mismatch" in mlp.rebuilt.why_not(torch.ones(3, 9))
        _, again = Precompile.aot_autograd(mlp.gm, mlp.guards, compiler=eager)
    assert [line for line in str(again).splitlines() if "grad_mode" in line] == [
        line for line in written.splitlines() if '"grad_mode":true' in line
    ]
