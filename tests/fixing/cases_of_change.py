"""This module has pairs of programs that differ in one way, with the truth about them: each says
whether the pair is equal, or why not.

By class of what a call can change. In a pair, ``before`` and ``after`` define ``f``.
"""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    name: str
    before: str
    after: str
    said: str
    """Part of the first difference; empty when the two are equal."""
    inputs: str = "torch.linspace(-1, 2, 4).requires_grad_()"


OBJECT = """
class State:
    {body}
st = State()
def f(x):
    y = x * 2
    {line}
    return y
"""


def without(
    name: str, line: str, said: str, body: str = "total = 0.0", text: str = OBJECT, inputs: str = ""
) -> Pair:
    """The line taken out."""
    more = (inputs,) if inputs else ()
    return Pair(
        name, text.format(body=body, line=line), text.format(body=body, line="pass"), said, *more
    )


PLAIN = """
{body}
def f(x):
    y = x * 2
    {line}
    return y
"""


def alone(name: str, line: str, said: str, body: str = "", inputs: str = "") -> Pair:
    return without(name, line, said, body, PLAIN, inputs)


STATE = [
    without("a sum on a plain object", "st.total = st.total + y.sum().item()", "global st"),
    without("a private attribute", "st._n = y.sum().item()", "global st._n", "_n = 0"),
    without("a mangled name", "st._State__n = 1", "global st._State__n", "_State__n = 0"),
    without("a slot", "st.n = 3", "global st.n", "__slots__ = ('n',)"),
    without("an attribute of the class", "State.total += 1", "global State.total"),
    without("a list on an object", "st.seen.append(1)", "seen", "seen = []"),
    without(
        "an attribute that is deleted",
        "st.__dict__.pop('n', None)",
        "st.n",
        "\n    def __init__(self): self.n = 1",
    ),
    without("a new attribute", "st.new = 1", "global st.new"),
    without(
        "a property with a side effect",
        "st.p",
        "_asked",
        "_asked = 0\n    @property\n    def p(self): self._asked += 1",
    ),
    without(
        "__setattr__",
        "st.a = 1",
        "log",
        "log = []\n    def __setattr__(self, key, value): State.log.append(key)",
    ),
    without(
        "an inner object",
        "st.inner.n = 1",
        "st.inner.n",
        "\n    def __init__(self): self.inner = type('I', (), {'n': 0})()",
    ),
    alone(
        "a closure",
        "count()",
        "closure variable n",
        "def make():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n    return count\ncount = make()",
    ),
    alone(
        "a default argument", "keep(1)", "default of seen", "def keep(v, seen=[]): seen.append(v)"
    ),
    alone(
        "a keyword default",
        "keep(1)",
        "default of seen",
        "def keep(v, *, seen={}): seen[len(seen)] = v",
    ),
    alone("an attribute of a function", "f.calls = 1", "f.calls", "def helper(): pass"),
    alone("a private global", "global _n; _n += 1", "global _n", "_n = 0"),
    alone("a dict", "cache['k'] = 1", "global cache", "cache = {}"),
    alone("the order of a dict", "cache['a'] = cache.pop('a')", "keys", "cache = {'a': 1, 'b': 2}"),
    alone("a set", "seen.add(3)", "global seen", "seen = set()"),
    alone(
        "a deque",
        "last.append(1)",
        "global last",
        "import collections\nlast = collections.deque(maxlen=2)",
    ),
    alone(
        "a dict whose attributes are its keys",
        "settings['x'] += 1",
        "global settings",
        "class Settings(dict):\n    __getattr__ = dict.__getitem__\nsettings = Settings(x=0)",
    ),
    alone(
        "a default dict",
        "counts['x'] += 1",
        "global counts",
        "import collections\ncounts = collections.defaultdict(int)",
    ),
    alone(
        "a dataclass",
        "c.n += 1",
        "global c.n",
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int = 0\nc = C()",
    ),
    alone(
        "a buffer of a module",
        "bn(x.detach().view(2, -1)) if x.numel() else 0",
        "running_mean",
        "bn = torch.nn.BatchNorm1d(2)",
    ),
    alone(
        "a private attribute of a module",
        "m._n = 1",
        "global m._n",
        "m = torch.nn.Linear(2, 2)\nm._n = 0",
    ),
    alone("train and eval", "m.eval()", "training", "m = torch.nn.Linear(2, 2)"),
    alone(
        "a parameter's requires_grad",
        "m.weight.requires_grad_(False)",
        "requires_grad",
        "m = torch.nn.Linear(2, 2)",
    ),
    alone(
        "a hook that is registered",
        "m.register_forward_hook(print)",
        "_forward_hooks",
        "m = torch.nn.Linear(2, 2)",
    ),
    alone("a tensor's own attribute", "w.tag = 1", "global w.tag", "w = torch.ones(2)"),
    alone(
        "a tensor in a container",
        "d['w'][0].add_(1)",
        "global d['w'][0]",
        "d = {'w': [torch.zeros(2)]}",
    ),
    alone(".data", "w.data.mul_(2)", "global w", "w = torch.ones(2)"),
    alone(
        "a NumPy array", "a.__setitem__(0, 5)", "global a", "import numpy as np\na = np.zeros(2)"
    ),
    alone("a bytearray", "b.append(1)", "global b", "b = bytearray()"),
    alone(
        "an iterator that is consumed", "next(it, None)", "global it", "it = iter([1, 2, 3] * 20)"
    ),
    alone(
        "a counter of itertools",
        "next(it)",
        "global it",
        "import itertools\nit = itertools.count()",
    ),
    alone(
        "a generator's variables",
        "next(it)",
        "global it",
        "def g():\n    for i in range(99): yield i\nit = g()",
    ),
    alone("enumerate", "next(it)", "global it", "it = enumerate([1, 2] * 30)"),
    alone(
        "an object's random numbers",
        "r.random()",
        "global r",
        "import random\nr = random.Random(0)",
    ),
    alone(
        "a generator of torch", "torch.rand(1, generator=g)", "global g", "g = torch.Generator()"
    ),
    alone("Python's random numbers", "random.random()", "Python's random numbers", "import random"),
    alone("torch's random numbers", "torch.rand(1)", "torch's random numbers"),
    alone(
        "a lock", "lock.acquire(False)", "global lock", "import threading\nlock = threading.Lock()"
    ),
    alone("a text buffer", "out.write('a')", "global out", "import io\nout = io.StringIO()"),
    alone("grad mode", "torch.set_grad_enabled(False)", "gradients are recorded"),
    alone(
        "an exception that is kept", "errors.append(ValueError(1))", "global errors", "errors = []"
    ),
    alone(
        "an enum's member kept",
        "kept.append(E.A)",
        "global kept",
        "import enum\nclass E(enum.Enum):\n    A = 1\nkept = []",
    ),
    alone("a bound method's object", "push(1)", "push", "push = [].append"),
    alone(
        "a partial's argument",
        "push()",
        "push",
        "import functools\npush = functools.partial(lambda held: held.append(1), [])",
    ),
    alone(
        "a weakly held object",
        "o.n = 1",
        "global o.n",
        "import weakref\nclass O:\n    n = 0\no = O()\nr = weakref.ref(o)",
    ),
    Pair(
        "a list among the inputs",
        "def f(x, kept):\n    kept.append(1)\n    return x * 2\n",
        "def f(x, kept):\n    return x * 2\n",
        "input 2",
        "(torch.ones(2), [])",
    ),
    Pair(
        "an object among the inputs",
        "class S:\n    total = 0\ndef f(x, st):\n    st.total = st.total + x.sum().item()\n    return x * 2\n",
        "class S:\n    total = 0\ndef f(x, st):\n    return x * 2\n",
        "input 2.total",
        "(torch.ones(2), S())",
    ),
]


def of_process(name: str, line: str, said: str, module: str) -> Pair:
    """A setting of the process that the line changes, in a module that is not the program's."""
    return alone(name, line, f"the process's {said}", f"import {module}")


PROCESS = [
    of_process(
        "a filter of warnings",
        "warnings.filterwarnings('ignore', 'fixing')",
        "filter of warnings",
        "warnings",
    ),
    of_process(
        "a logger's level",
        "logging.getLogger('fixing').setLevel(len(x) + 10)",
        "level of the logger",
        "logging",
    ),
    of_process("logging, disabled", "logging.disable(3)", "logging.disable", "logging"),
    of_process(
        "a signal's handler",
        "signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "handler of SIGUSR2",
        "signal",
    ),
    of_process(
        "where modules are looked for", "sys.path.append('/fixing')", "sys.path with", "sys"
    ),
    of_process("decimal's context", "decimal.getcontext().prec = 5", "precision", "decimal"),
    of_process("NumPy's errors", "numpy.seterr(divide='raise')", "floating-point errors", "numpy"),
    of_process(
        "NumPy's print options",
        "numpy.set_printoptions(precision=2)",
        "print options of NumPy",
        "numpy",
    ),
    of_process(
        "torch's print options",
        "torch.set_printoptions(precision=2)",
        "print options of torch",
        "torch",
    ),
    of_process(
        "denormal numbers", "torch.set_flush_denormal(True)", "flushing of denormal", "torch"
    ),
    of_process(
        "oneDNN", "torch.backends.mkldnn.set_flags(False)", "use of oneDNN", "torch.backends.mkldnn"
    ),
    of_process(
        "cuDNN",
        "torch.backends.cudnn.deterministic = True",
        "settings of cuDNN",
        "torch.backends.cudnn",
    ),
    of_process("an attribute of a module of Python's", "math.fixing = 1", "math.fixing", "math"),
    of_process("a builtin", "builtins.fixing = 1", "builtins.fixing", "builtins"),
]


def of(
    name: str,
    before: str,
    after: str,
    said: str,
    head: str = "",
    inputs: str = "torch.linspace(-1, 2, 4).requires_grad_()",
) -> Pair:
    """Two bodies of ``f(x)``."""
    lines = [
        f"{head}\ndef f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
        for body in (before, after)
    ]
    return Pair(name, lines[0], lines[1], said, inputs)


RESULTS = [
    of("the input itself or a copy", "return x", "return x.clone()", "input 1 itself"),
    of("a copy or the input itself", "return x.clone()", "return x", "is input 1"),
    of(
        "a view or a copy",
        "return x.detach()[:2]",
        "return x.detach()[:2].clone()",
        "shared memory",
    ),
    of("a copy or a view", "return x.detach().clone()", "return x.detach()", "share memory"),
    of(
        "two outputs that are one",
        "y = x * 2\nreturn y, y",
        "return x * 2, x * 2",
        "the output[0] itself",
    ),
    of("a list or a tuple", "return [x * 2]", "return (x * 2,)", "its type was list and is tuple"),
    of(
        "a named tuple or a tuple",
        "return P(x * 2)",
        "return (x * 2,)",
        "its type",
        "import collections\nP = collections.namedtuple('P', 'a')",
    ),
    of("a number or a tensor", "return x.sum().item()", "return x.sum()", "is a tensor"),
    of("an integer or a float", "return 2", "return 2.0", "was 2 and is 2.0"),
    of("a bool or an integer", "return True", "return 1", "was True and is 1"),
    of(
        "NumPy's number or Python's",
        "return np.float64(2)",
        "return 2.0",
        "type",
        "import numpy as np",
    ),
    of(
        "None or a tensor",
        "return None if x.sum() > 0 else x",
        "return x",
        "was nothing and is a tensor",
    ),
    of("a dtype", "return x * 2", "return (x * 2).double()", "dtype"),
    of(
        "a dtype by promotion",
        "return torch.ones(2) * 2.5",
        "return torch.ones(2) * torch.tensor([2.5], dtype=torch.float64)",
        "dtype",
    ),
    of(
        "strides",
        "return x.detach().view(2, 2)",
        "return x.detach().view(2, 2).t().contiguous().t()",
        "shared memory",
        inputs="torch.ones(4)",
    ),
    of("strides alone", "return torch.ones(2, 3)", "return torch.ones(3, 2).t()", "strides"),
    of("detached", "return x * 2", "return (x * 2).detach()", "requires_grad"),
    of(
        "no_grad inside", "return x * 2", "with torch.no_grad():\n    return x * 2", "requires_grad"
    ),
    of(
        "a gradient that sums to nothing",
        "return x.softmax(0)",
        "return x.softmax(0) + 0 * x.detach() - x + x.detach()",
        "gradient",
    ),
    of(
        "a parameter or a tensor",
        "return P",
        "return P.detach().requires_grad_()",
        "type",
        "P = torch.nn.Parameter(torch.ones(2))",
    ),
    of(
        "minus nothing",
        "return torch.zeros(2) * -1",
        "return torch.zeros(2)",
        "a zero has another sign",
    ),
    of("minus nothing in Python", "return -0.0", "return 0.0", "-0.0"),
    of("small numbers", "return x.detach() * 0 + 1e-6", "return x.detach() * 0 + 2e-6", "differs"),
    of(
        "an order of magnitude below the tolerance",
        "return torch.tensor(1e-5)",
        "return torch.tensor(1.5e-5)",
        "differs",
    ),
    of("the order of a dict", "return {'a': x * 2, 'b': x}", "return {'b': x, 'a': x * 2}", "keys"),
    of(
        "an object of the user's",
        "return R(1)",
        "return R(2)",
        "the output.n",
        "class R:\n    def __init__(self, n): self.n = n",
    ),
    of(
        "a custom class or a tuple", "return R((x,))", "return (x,)", "type", "class R(tuple): pass"
    ),
    of("in place on the input", "x.detach().mul_(2)\nreturn x * 1", "return x * 1", "input 1"),
    of(
        "a subclass of a tensor",
        "return x.detach().as_subclass(T)",
        "return x.detach()",
        "type",
        "class T(torch.Tensor): pass",
    ),
    of("a complex number", "return 1 + 2j", "return 1 + 3j", "was (1+2j)"),
    of("a long integer", "return 2**70", "return 2**70 + 1", "was"),
    of("a set", "return {1, 2}", "return {1, 3}", "elements"),
    of("bytes", "return b'a'", "return b'b'", "b'a'"),
]

OTHER_INPUTS = [
    of(
        "negative",
        "return x.relu() if x.sum() > -3 else x",
        "return x.relu()",
        "negated",
        inputs="torch.ones(4)",
    ),
    of(
        "large",
        "return x * 2 if x.sum() < 50 else x",
        "return x * 2",
        "100 times",
        inputs="torch.ones(4)",
    ),
    of("zero", "return x * 2 if x.any() else x + 1", "return x * 2", "zeros"),
    of(
        "not a number",
        "return x * 2 if not x.isnan().any() else torch.zeros(4)",
        "return x * 2",
        "NaN",
    ),
    of(
        "infinite",
        "return x * 2 if not x.isinf().any() else torch.zeros(4)",
        "return x * 2",
        "infinities",
    ),
    of(
        "large integers that do not cancel out",
        "return x.float() * (x.sum().item() ** 2)",
        "return x.float() * (x.sum() ** 2)",
        "large integers",
        inputs="torch.arange(4)",
    ),
    of(
        "a power that Python's own numbers hold",
        "return x.float() * float(2 ** min(x.sum().item(), 1000))",
        "return x.float() * float(2 ** x.sum())",
        "integers that sum to hundreds",
        inputs="torch.arange(4)",
    ),
    of(
        "the largest integer",
        "return x + 1 if x.max() < 2**60 else x",
        "return x + 1",
        "largest",
        inputs="torch.arange(4)",
    ),
    of("all ones", "return x * 2 if not (x == 1).all() else x", "return x * 2", "as ones"),
    of(
        "a flag",
        "return x[0] * 2 if x[1] else x[0]",
        "return x[0] * 2",
        "flags",
        inputs="([torch.ones(2), True],)",
    ),
    of(
        "a negative number",
        "return x[0] * abs(x[1])",
        "return x[0] * x[1]",
        "negated",
        inputs="([torch.ones(2), 3],)",
    ),
    of(
        "a huge integer",
        "return float(x[1] * 4) * x[0]",
        "return x[0] * torch.tensor(x[1]).mul(4).item()",
        "2**62",
        inputs="([torch.ones(2), 3],)",
    ),
    of(
        "a NaN out of a branch",
        "return x.mean() if len(x) else torch.zeros(())",
        "return x.mean()",
        "an empty batch",
        inputs="torch.ones(4)",
    ),
    of("twice the batch", "return x * 2 if len(x) < 8 else x", "return x * 2", "twice the batch"),
    of(
        "a third call",
        "N.append(1)\nreturn x * 2 if len(N) < 9 else x",
        "N.append(1)\nreturn x * 2",
        "differs",
        "N = []",
    ),
]

WRITTEN_AND_RAISED = [
    of(
        "an exception for some inputs",
        "if x.sum() < -3: raise ValueError('no')\nreturn x * 2",
        "return x * 2",
        "ValueError",
        inputs="torch.ones(4)",
    ),
    of(
        "its type",
        "if x.sum() < -3: raise ValueError('no')\nreturn x * 2",
        "if x.sum() < -3: raise TypeError('no')\nreturn x * 2",
        "TypeError",
    ),
    of(
        "an exception swallowed",
        "try:\n    assert x.sum() > -3\nexcept AssertionError:\n    S.append(1)\nreturn x * 2",
        "return x * 2",
        "global S",
        "S = []",
    ),
    of(
        "a file that is opened",
        "open('/dev/null', 'w').close()\nreturn x * 2",
        "return x * 2",
        "no longer opens /dev/null",
    ),
    of(
        "a process that is started",
        "os.system('true')\nreturn x * 2",
        "return x * 2",
        "no longer calls os.system",
        "import os",
    ),
    of(
        "the environment",
        "os.environ['FIXING_X'] = str(len(x))\nreturn x * 2",
        "os.environ.pop('FIXING_X', 0)\nreturn x * 2",
        "FIXING_X",
        "import os",
    ),
    of(
        "the environment, a variable that Inductor has too",
        "os.environ['TRITON_FIXING'] = str(len(x))\nreturn x * 2",
        "os.environ.pop('TRITON_FIXING', 0)\nreturn x * 2",
        "TRITON_FIXING",
        "import os",
    ),
]

PRINTED = [
    of("a print", "print('a')\nreturn x * 2", "return x * 2", "a"),
    of("a print before an exception", "print('a')\nraise ValueError", "raise ValueError", "a"),
    of(
        "a log message",
        "L.warning('a')\nreturn x * 2",
        "return x * 2",
        "WARNING p: a",
        "import logging\nL = logging.getLogger('p')",
    ),
    of(
        "a warning",
        "warnings.warn('a')\nreturn x * 2",
        "return x * 2",
        "UserWarning: a",
        "import warnings",
    ),
    of("stderr", "print('a', file=sys.stderr)\nreturn x * 2", "return x * 2", "a", "import sys"),
    of(
        "the text of an exception",
        "raise ValueError('a')",
        "raise ValueError('b')",
        "ValueError said 'a' and says 'b'",
    ),
]
"""``said``: the first line that is lost."""

EQUAL = [
    of("the same", "return x * 2", "return x * 2", ""),
    of("another way to compute it", "return x * 2", "return x + x", ""),
    of(
        "state that is kept",
        "S.append(float(x.sum()))\nreturn x * 2",
        "S.extend([float(x.sum())])\nreturn x * 2",
        "",
        "S = []",
    ),
    of(
        "another order of locals",
        "a = 1\nb = 2\nreturn x * a * b",
        "b = 2\na = 1\nreturn x * b * a",
        "",
    ),
    Pair(
        "a constant of the change's own",
        "def f(x):\n    return x * 2\n",
        "_TWO = 2\ndef f(x):\n    return x * _TWO\n",
        "",
    ),
    Pair(
        "a function of the change's own",
        "def f(x):\n    return x * 2\n",
        "def twice(x):\n    return x * 2\ndef f(x):\n    return twice(x)\n",
        "",
    ),
    of("views that stay views", "return x.detach()[:2], x", "y = x.detach()\nreturn y[:2], x", ""),
    of(
        "a module's state",
        "return m(x)",
        "y = m(x)\nreturn y",
        "",
        "m = torch.nn.Linear(4, 4)",
        "torch.ones(2, 4)",
    ),
    of("a NaN", "return x / 0", "return x / 0.0", ""),
    of(
        "an error of the same text",
        "if len(x) == 0: raise ValueError('no')\nreturn x",
        "if not len(x): raise ValueError('no')\nreturn x",
        "",
    ),
]
