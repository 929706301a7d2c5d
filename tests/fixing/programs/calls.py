"""This module has functions whose graph breaks come from calls: output, side effects, C functions,
NumPy, context managers. Each function is one case.
"""

import contextlib
import itertools
import logging
import os
import random
import threading
import time
import warnings
import zlib

import numpy as np
import torch

import tests.fixing.programs.library as library

log = logging.getLogger("program")
lock = threading.Lock()
SEEN = 0


def printed(x):
    x = x + 1
    print("the sum is", x.sum())
    return x * 2


def printed_with_a_shape(x):
    x = x + 1
    print("the shape is", x.shape)
    return x * 2


def printed_while_changing(x):
    y = x + 1
    print(y.mul_(3).sum())
    return y


def logged(x):
    x = x + 1
    log.warning("hello")
    return x * 2


@torch.compile(backend="eager")
def printed_last_by_a_compiled_one(x):
    x = x + 1
    print("the sum is", x.sum())
    return x


def hooked(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: log.info("a gradient of %s", tuple(gradient.shape)))
    return y.sum()


def hushed(x):
    x = x + 1
    log.info("hello")
    return x * 2


def warned_by_default_of_nothing(x):
    x = x + 1
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return x * 2


@torch.compile(backend="eager")
def printed_by_a_compiled_one(x):
    x = x + 1
    print("the sum is", x.sum().item(), f"of {x.shape}", sep="! ")
    return x * 2


@torch.compile(backend="eager")
def printed_before_it_changes(x):
    y = x + 1
    print(y)
    y.mul_(2)
    return y


def printed_among_others(x):
    x = x + 1
    print("the sum is", x.sum())
    x = x * 2
    print("twice")
    return x


@torch.compile(backend="eager")
def trained(x):
    """Run one training step."""
    y = (x * 2).sin()
    loss = y.sum()
    loss.backward()
    return loss.detach()


def trained_at_once(x):
    y = (x * 2).sin()
    y.pow(2).sum().backward()
    return y.detach()


trained_elsewhere = torch.compile(trained_at_once, backend="eager")


@torch.compile(backend="eager")
def trained_differently(x):
    y = x * 2 if torch.compiler.is_compiling() else x.sin()
    y.sum().backward()
    return y.detach()


def returns_what_it_trained(x):
    loss = (x * 2).sin().sum()
    loss.backward()
    return loss


def asked_for(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@torch.compiler.disable
def kept_out(x):
    return x.sin()


def calls_kept_out(x):
    return kept_out(x + 1) * 2


@torch.compiler.disable
def tells_where_it_runs(x):
    return x * 2 if torch.compiler.is_compiling() else x.sin()


def calls_one_that_tells(x):
    return tells_where_it_runs(x + 1) * 2


def checksum(x):
    return x * (zlib.crc32(b"abc") % 7)


def dice(x):
    return x * random.random()


def checksum_of(x, text="abc"):
    return x * (library.checksum(text) % 7)


def third_party(x):
    return library.halved(x) + 1


def third_party_in_numpy(x):
    return x + library.smoothed(x.detach())


def third_party_with_gradient(x):
    return library.smoothed_with_gradient(x) * 2


def third_party_with_side_effect(x):
    return library.counted(x) + 1


def interpolated(x):
    return x * torch.from_numpy(np.interp(x.detach().numpy(), [0.0, 1.0], [0.0, 2.0]))


def digitized(x):
    return x * torch.from_numpy(np.digitize(x.detach().numpy(), np.array([0.0, 1.0])))


def digitized_first(x):
    places = np.digitize(x.detach().numpy(), np.array([0.0, 1.0]))
    return x * torch.from_numpy(places)


def averaged(x):
    return x * torch.as_tensor(np.nanmean(x.detach().numpy()))


def averaged_by_column(x):
    return torch.from_numpy(np.interp(x.detach().numpy().sum(0), [0.0, 1.0], [0.0, 2.0])) + x.sum()


def slept(x):
    x = x + 1
    time.sleep(0)
    return x * 2


def environment(x):
    os.environ["FIXING_SAW"] = "1"
    return x * 2


def named_global(x):
    globals()["SEEN"] = 3
    return x * 2


def counted_in_a_function(x):
    counted_in_a_function.calls = getattr(counted_in_a_function, "calls", 0) + 1
    return x * 2


class Timed:
    def __enter__(self):
        time.sleep(0)

    def __exit__(self, *_):
        return False


@contextlib.contextmanager
def doubled(x):
    time.sleep(0)
    x.mul_(2)
    yield


def locked(x):
    with lock:
        x = x + 1
    return x * 2


def timed(x):
    with Timed():
        x = x + 1
    return x * 2


def changed_on_entering(x):
    y = x + 1
    with doubled(y):
        y = y + 1
    return y * 2


def combined(x):
    for first, _ in itertools.combinations_with_replacement([1, 2], 2):
        x = x * first
    return x


def shuffled(x):
    for number in random.sample([1, 2, 3, 4, 5, 6, 7, 8, 9], 2):
        x = x * number
    return x


SETTINGS = {"gain": 2}


def settings_read_again(x):
    return x * (zlib.crc32(str(SETTINGS).encode()) % SETTINGS["gain"])
