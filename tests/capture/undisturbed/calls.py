"""This module has programs whose calls are unusual: compiled autograd, custom functions, hooks,
nested compilation, stances, exceptions.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.gelu(self.up(x)))


def _gradients(module: nn.Module) -> list[Any]:
    return [parameter.grad for parameter in module.parameters()]


def compiled_autograd_config() -> Any:
    net = Net()

    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).pow(2).mean()
        loss.backward()
        return loss

    with torch._dynamo.config.patch(compiled_autograd=True):
        losses = [step(torch.randn(4, 8)) for _ in range(2)]
    return losses, _gradients(net)


def compiled_autograd_enabled() -> Any:
    net = Net()
    compiled = torch.compile(net)
    with torch._dynamo.compiled_autograd._enable(torch.compile):
        for _ in range(2):
            compiled(torch.randn(4, 8)).sum().backward()
    return _gradients(net)


def compiled_autograd_everywhere() -> Any:
    """Set for good, as a script does: Dynamo then looks at all that compiled autograd itself calls."""
    net = Net()

    @torch.compile
    def train(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).pow(2).mean()
        loss.backward()
        return loss

    torch._dynamo.config.compiled_autograd = True
    try:
        return train(torch.randn(4, 8)), train(torch.randn(4, 8))
    finally:
        torch._dynamo.config.compiled_autograd = False


def compiled_autograd_eager_forward() -> Any:
    net = Net()
    net.up.weight.register_hook(lambda grad: grad * 2)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        net(torch.randn(4, 8)).sum().backward()
    return _gradients(net)


def compiled_autograd_and_hooks() -> Any:
    net = Net()

    def halve(parameter: torch.Tensor) -> None:
        parameter.grad.mul_(0.5)  # type: ignore[union-attr]

    net.up.weight.register_post_accumulate_grad_hook(halve)

    def train(x: torch.Tensor) -> None:
        y = net(x)
        y.register_hook(lambda grad: grad.clamp(-1, 1))
        y.sum().backward()

    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(train)(torch.randn(4, 8))
    return _gradients(net)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


def custom_autograd_function() -> Any:
    x = torch.randn(5, requires_grad=True)
    torch.compile(lambda x: Cube.apply(x).sum())(x).backward()
    return x.grad


def custom_function_with_compiled_autograd() -> Any:
    x = torch.randn(5, requires_grad=True)
    with torch._dynamo.config.patch(compiled_autograd=True):
        torch.compile(lambda x: Cube.apply(x * 2).sum())(x).backward()
    return x.grad


def once_differentiable() -> Any:
    x = torch.randn(5, requires_grad=True)
    y = torch.compile(lambda x: (x.sin() * x).sum())(x)
    (grad,) = torch.autograd.grad(y, x)
    return grad


def module_hooks() -> Any:
    net = Net()
    seen: list[int] = []
    net.up.register_forward_hook(lambda module, inputs, output: output + 1)
    net.down.register_forward_pre_hook(lambda module, inputs: seen.append(1))
    net.register_full_backward_hook(lambda module, grad_in, grad_out: None)
    torch.compile(net)(torch.randn(2, 8)).sum().backward()
    return _gradients(net), len(seen)


def tensor_hooks() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        return (y * y).sum()

    x = torch.randn(4, requires_grad=True)
    f(x).backward()
    return x.grad


def saved_tensor_hooks() -> Any:
    packed: list[int] = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        packed.append(x.numel())
        return x

    x = torch.randn(4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        torch.compile(lambda x: x.exp().sum())(x).backward()
    return x.grad


def checkpointed() -> Any:
    net = Net()

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(net, x, use_reentrant=False).sum()

    f(torch.randn(3, 8)).backward()
    return _gradients(net)


def compile_inside_compiled() -> Any:
    inner = torch.compile(lambda x: x.sin())

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = inner(x) + 1
        again = torch.compile(lambda z: z.cos())
        return again(y) * 2

    return f(torch.randn(4))


def compile_called_while_tracing() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        g = torch.compile(torch.relu, backend="eager")
        return g(x) + 1

    return f(torch.randn(4))


def stances() -> Any:
    f = torch.compile(lambda x: x * 2 + 1)
    made = [f(torch.ones(3))]
    with torch.compiler.set_stance("force_eager"):
        made.append(f(torch.ones(4)))
    with torch.compiler.set_stance("eager_on_recompile"):
        made.append(f(torch.ones(5)))
    torch.compiler.set_stance("default")
    return *made, f(torch.ones(6))


def stance_inside_compiled() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch.compiler.set_stance("default")
        return y * 2

    return f(torch.ones(3))


def fullgraph() -> Any:
    return torch.compile(lambda x: x.softmax(0).log(), fullgraph=True)(torch.randn(5))


def fullgraph_that_fails() -> Any:
    @torch.compile(fullgraph=True)
    def f(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    try:
        f(torch.ones(2))
    except torch._dynamo.exc.Unsupported as error:
        return type(error).__name__
    return "no error"


def break_in_try() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            y = x + 1
            torch._dynamo.graph_break()
            if y.sum() > 100:
                raise ValueError("too much")
            return y * 2
        except ValueError:
            return x
        finally:
            x.add_(1)

    return f(torch.ones(2)), f(torch.full((2,), 100.0))


def exception_caught_inside() -> Any:
    @torch.compile
    def f(x: torch.Tensor, flag: bool) -> torch.Tensor:
        try:
            if flag:
                raise KeyError("missing")
            return x + 1
        except LookupError:
            return x - 1

    return f(torch.ones(2), True), f(torch.ones(2), False)


def exception_that_leaves() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.shape[0] == 3:
            raise ValueError("three")
        return y

    made = f(torch.ones(2))
    try:
        f(torch.ones(3))
    except ValueError as error:
        return made, str(error)
    return made, "nothing raised"


def disabled_function() -> Any:
    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return outside(x + 1).sin()

    return f(torch.ones(3))


def warns_and_prints() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        print("inside", end="")
        y = x + 1
        warnings.warn("careful", stacklevel=1)
        return y * 2

    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        return f(torch.ones(3))


def logs() -> Any:
    import logging

    log = logging.getLogger("some.user")

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        log.debug("nobody sees %s", 1)
        return y + 1

    return f(torch.ones(3))


def backend_of_the_users() -> Any:
    graphs: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(len(module.graph.nodes))
        return module.forward

    @torch.compile(backend=backend)
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y + len(graphs)

    return f(torch.ones(3)), graphs


def backend_that_raises() -> Any:
    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        raise NotImplementedError("not today")

    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    except Exception as error:  # noqa: BLE001 - whatever torch makes of it
        return type(error).__name__
    return "no error"


def backend_that_raises_suppressed() -> Any:
    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        raise NotImplementedError("not today")

    with torch._dynamo.config.patch(suppress_errors=True):
        return torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))


def lowering_that_fails() -> Any:
    @torch.library.custom_op("undisturbed::no_fake", mutates_args=())
    def no_fake(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    try:
        return torch.compile(lambda x: no_fake(x) + 1)(torch.ones(2))
    except Exception as error:  # noqa: BLE001 - whatever torch makes of it
        return type(error).__name__


def custom_op() -> Any:
    @torch.library.custom_op("undisturbed::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    twice.register_autograd(lambda ctx, grad: grad * 2)
    x = torch.randn(3, requires_grad=True)
    torch.compile(lambda x: twice(x).sin().sum())(x).backward()
    return x.grad


def mutating_custom_op() -> Any:
    @torch.library.custom_op("undisturbed::fill", mutates_args={"x"})
    def fill(x: torch.Tensor, value: float) -> None:
        x.fill_(value)

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        fill(y, 3.0)
        return y * 2

    return f(torch.ones(3))


def partials_and_methods() -> Any:
    net = Net()
    f = torch.compile(functools.partial(torch.add, alpha=2))
    return f(torch.ones(2), torch.ones(2)), torch.compile(net.forward)(torch.randn(2, 8))


def module_compile_method() -> Any:
    net = Net()
    net.up.compile()
    net(torch.randn(2, 8)).sum().backward()
    return _gradients(net)


def compiled_optimizer() -> Any:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    net(torch.randn(2, 8)).sum().backward()
    torch.compile(optimizer.step)()
    return list(net.parameters())


def whole_training_step() -> Any:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @torch.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return [step(torch.randn(2, 8)) for _ in range(2)]
