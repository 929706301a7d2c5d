"""This package has the GPUs for which code can be generated without having them: one TOML file
each, every number with its source.
"""

from fx_explorer.gpus.device import gpu_like
from fx_explorer.gpus.gpu_files import find_gpu, gpu_of_device, known_gpus

__all__ = ["find_gpu", "gpu_like", "gpu_of_device", "known_gpus"]
