"""This module imitates a third-party library whose functions Dynamo cannot trace."""

import time
import zlib

import numpy as np
import torch

COUNT = [0]


def checksum(text):
    return zlib.crc32(text.encode())


def halved(x):
    time.sleep(0)
    return x / 2


def smoothed(x):
    rows = np.apply_along_axis(np.sort, 0, x.numpy())
    return torch.from_numpy(np.ascontiguousarray(rows))


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return smoothed(x.detach())

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def smoothed_with_gradient(x):
    time.sleep(0)
    return Smooth.apply(x)


def counted(x):
    COUNT[0] += 1
    time.sleep(0)
    return x * 2


def twice_interrupted(x):
    x = x + 1
    time.sleep(0)
    x = x * 2
    time.sleep(0)
    return x - 1
