"""This module has functions whose graph breaks come from a tensor's content: numbers taken out,
branches, sizes. Each function is one case of test_causes.py.
"""

import torch


def item(x):
    return x * x.sum().item()


def item_as_exponent(x):
    count = (x > 0).float().mean().item()
    half = count / 2
    return x.abs() ** half


def item_below_a_line(x):
    scale = 1.0 / (x.abs().sum().item() + 3)
    return x * scale


def mean_in_python(x):
    return x * (2 * x.mean().item() + 1)


def branch_of_plain_values(x):
    y, z = x * 2, x * 3
    return y if x.sum() > 0 else z


def branch_that_may_raise(x):
    return x.sigmoid() if x.sum() > 0 else x.tanh()


def exponent_chosen(x):
    power = 0.5 if x.mean() > 0 else 2.0
    return x.abs() ** power


def as_large_as(x):
    threshold = x.abs().max().item()
    return x * (threshold >= 0.7)


def two_items_at_once(x):
    low, high = x.abs().min().item(), x.abs().max().item()
    scaled = (x - low) * (1.0 / (high - low + 1.0))
    return scaled.abs() ** high


def items_summed(x):
    total = 0
    for row in x:
        total += row.sum().item()
    return x * total


def item_for_the_caller(x):
    return x.sum().item()


def item_that_decides(x):
    count = int((x > 0).sum())
    if count > 8:
        x = x * 2
    return x + count


def as_float(x):
    return x * float(x.mean())


def branch(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


def branch_that_returns(x):
    if x.mean() > 0:
        return x.relu()
    return x.sigmoid()


def branch_of_more_steps(x):
    if x.sum() > 0:
        x = x * 2
        x = x.sin()
    else:
        x = x - 1
    return x


def branch_of_two_dtypes(x):
    return x.double() if x.sum() > 0 else x - 1


def branch_of_two_shapes(x):
    if x.sum() > 0:
        y = x[:1]
        y = y + 1
    else:
        y = x - 1
    return y


def checked(x):
    assert x.sum() > -1e9, f"the sum is {x.sum()}"
    return x * 2


def nonzero(x):
    return x.nonzero().sum() + x.sum()


def size_that_decides(x):
    found = x.nonzero()
    return x * 2 if len(found) > 8 else x


def mask(x):
    return x[x > 0].sum() * x


def mask_of_rows(x):
    rows = x.sum(1) > 0
    return x[rows].sum() * x


def unique(x):
    return torch.unique(x.detach()).sum() * x


def grown(x):
    rounds = torch.tensor(0)
    while x.abs().sum() < 100:
        step = x.abs() + 1
        x = x + step
        rounds += 1
    return x * rounds


def grown_by_a_number(x):
    size = 1
    while x.abs().sum() < 100:
        x = x.abs() + size
        size = size * 2.0
    return x * 2


def grown_in_place(x):
    y = x.detach().clone()
    while y.abs().sum() < 100:
        y += 2
    return x * y


def grown_with_the_input(x):
    y = x.detach()
    while y.abs().sum() < 100:
        y += 2
    return x * y


def endless_for_zeros(x):
    y = x.detach().abs()
    while y.sum() < 100:
        y = y * 2
    return x * y


def asserted(x):
    assert x.sum() > 0, f"the sum is {x.sum()}"
    return x * 2
