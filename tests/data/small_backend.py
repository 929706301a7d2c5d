"""A backend in a target file: it takes linear layers and ReLU, and leaves the rest to PyTorch."""

import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.operator_support import OperatorSupportBase

TAKEN = {torch.ops.aten.t.default, torch.ops.aten.addmm.default, torch.ops.aten.relu.default}


class LinearLayers(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.target in TAKEN

    def reason(self, submodules, node):
        return "only linear layers and ReLU are taken"


operator_support = LinearLayers()

small = aot_autograd(fw_compiler=lambda graph, inputs: graph.forward)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.second(torch.special.i0(torch.relu(self.first(x)))).softmax(-1)


model, example_inputs = Net(), (torch.randn(3, 16),)
