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


if __name__ == "__main__":
    compile_here()
    loader = torch.utils.data.DataLoader(
        Numbers(),
        batch_size=2,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="spawn",
    )
    for _ in loader:
        pass
