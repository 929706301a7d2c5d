"""This module has functions with graph breaks that cannot be resumed (try, generators), and with
several in one function. Each function is one case.
"""

import time

import torch

import tests.fixing.programs.library as library


def tried(x):
    try:
        y = x + 1
        time.sleep(0)
    except ValueError:
        y = x - 1
    return y.sin() * 2


def tried_with_the_break_first(x):
    try:
        time.sleep(0)
        y = x + 1
    except ValueError:
        y = x - 1
    return y.sin() * 2


def caught(x):
    try:
        y = x / 2
        if x.sum() > 0:
            raise ValueError("positive")
    except ValueError:
        y = x * 2
    return y.sin() * 2


def finally_printed(x):
    try:
        y = x + 1
        time.sleep(0)
    finally:
        z = x * 2
    return y + z


def numbers(x):
    for number in range(3):
        time.sleep(0)
        yield x * number


def two(x):
    yield x.sin()
    time.sleep(0)
    yield x * 2


def summed(x):
    total = x
    for value in two(x):
        total = total + value
    return total


def endless(x):
    while True:
        time.sleep(0)
        yield x


def first_two(x):
    values = endless(x)
    return next(values) + next(values)


def generated(x):
    return numbers(x)


def interrupted(x):
    x = x + 1
    time.sleep(0)
    x = x * 2
    time.sleep(0)
    return x - 1


def calls_interrupted(x):
    return interrupted(x.sin()) + 1


def calls_library(x):
    return library.twice_interrupted(x.sin()) + 1


def looping_when_compiled(x):
    x = x + 1
    torch._dynamo.graph_break()
    while torch.compiler.is_compiling() and library.COUNT[0] > 10**12:
        pass
    return x


def three_breaks(x):
    x = x * x.sum().item()
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    time.sleep(0)
    return y + 1


def depends_on_both(x):
    x = x + 1
    one = 1
    torch._dynamo.graph_break()
    x = x * 2
    other = 1
    torch._dynamo.graph_break()
    return x if one + other < 4 else x * 2
