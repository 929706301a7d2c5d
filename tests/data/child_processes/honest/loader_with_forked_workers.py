import os
import sys

import torch
import torch.utils.data

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.ones(3) * index


compile_here()
for _ in torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=2):
    pass
