"""This module has globals that raise when they are looked at, which is not the fault of the
function below.
"""

import enum
import io
import random
import types

import torch


def _missing(name):
    raise KeyError(name)


class Colour(enum.Enum):
    RED = 1

    def __repr__(self):
        raise RuntimeError("it has no text")


class Closed(io.StringIO):
    def getvalue(self):
        raise OSError("it cannot be read")


class Incomparable(io.RawIOBase):
    __hash__ = None

    def __eq__(self, other):
        raise TypeError("it is like nothing")


class KeysAsAttributes(dict):
    __getattr__ = dict.__getitem__


lazy = types.ModuleType("lazy")
lazy.__getattr__ = _missing
system = random.SystemRandom()
held = {"colour": Colour.RED}
text = Closed()
view = memoryview(b"abc")
view.release()
stream = Incomparable()
settings = KeysAsAttributes(x=1)


def uses_them(x):
    told = [one is None for one in (lazy, system, held, text, view, stream, settings)]
    return x * x.sum().item(), told


def uses_only_a_module(x):
    return x * x.sum().item() if lazy is not torch else x
