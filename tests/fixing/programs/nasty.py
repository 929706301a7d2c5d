"""This module has functions whose obvious fix is wrong in a way that one result does not show;
test_nasty.py has the truth about each.
"""


class State:
    def __init__(self):
        self.total = 0
        self._n = 0
        self.__hidden = 0


st = State()


def total_on_an_object(x):
    y = x * 2
    st.total = st.total + y.sum().item()
    return y


def private_on_an_object(x):
    y = x * 2
    st._n = y.sum().item()
    return y


def kept_in_a_list(x, seen=[]):  # noqa: B006 - the form is the case
    y = x * 2
    seen.append(y.sum().item())
    return y


def float_for_the_state(x):
    y = x * 2
    st.scale = y.sum().item()
    return y * st.scale


def alias_or_copy(x):
    if x.sum() > 0:
        y = x
    else:
        y = x * 2
    return y


RATES = {1000: 0.1, 2000: 0.01}


def by_number(x):
    return x * RATES.get(x.sum().item(), 0.5)


def corner_kept(x):
    x = x.clone()
    corner = x[0, 0].item()
    x[(x > 0.3) & (x < 0.31)] = 0.0
    return x * corner


def overflowing(n):
    m = n.max().item()
    return n * 0.5 + min(m * 4, 100)


def computed_with_floats(n):
    m = n.max().item()
    return n * 0.5 + float(m * 4)


def threshold(x):
    if x.sum() > 12345.5:
        y = x * 2
    else:
        y = x + 1
    return y


def never(x):
    if x.sum() == 12345.5:
        y = x * 2
    else:
        y = x + 1
    return y


def reads_the_clock(x):
    import time

    y = x * 2
    time.time()
    return y + 1


def writes_a_file(x):
    y = x * 2
    with open("/dev/null", "w") as file:
        file.write("a")
    return y + 1


def summed_in_python(x):
    total = 0
    for value in x.flatten():
        total += value.item()
    return x * (total + 0.0)


def scaled_to_its_range(x):
    low, high = x.min().item(), x.max().item()
    return (x - low) * (1.0 / (high - low + 1e-12))


def stores_the_clock(x):
    import time

    st.at = time.perf_counter()
    y = x * 2
    print("half way")
    return y + 1
