"""This module has Triton sources that no compiler wrote: each would run its own code, read a file
or use up memory if it were compiled.
"""

from __future__ import annotations

HEAD = """import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, DeviceProperties
triton_helpers.set_driver_to_gpu()
"""

DECORATOR = (
    "@triton_heuristics.pointwise(size_hints={'x': 64}, filename=__file__, inductor_meta={}, "
    "triton_meta={'signature': {'in_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'}, 'constants': {}})"
)


def kernel(
    body: str = "pass",
    *,
    decorator: str = DECORATOR,
    parameters: str = "in_ptr0, xnumel, XBLOCK: tl.constexpr",
) -> str:
    return f"{HEAD}\n{decorator}\n@triton.jit\ndef hostile({parameters}):\n    {body}\n"


def with_meta(entry: str) -> str:
    return kernel(decorator=DECORATOR.replace("inductor_meta={}", f"inductor_meta={{{entry}}}"))


TOP_LEVEL = {
    "import os": "import os\n" + kernel(),
    "os.system": HEAD + "import os\nos.system('id')\n",
    "from os import system": "from os import system\n" + kernel(),
    "import inside an allowed name": "import triton as tl\n" + kernel(),
    "an allowed module by another name": HEAD.replace(
        "import triton\n", "import triton as system\n"
    )
    + "pass\n",
    "relative import": "from . import x\n" + kernel(),
    "import of everything": "from triton.language.core import *\n" + kernel(),
    "core's os": "from triton.language.core import os\n" + kernel(),
    "extern_elementwise imported": "from triton.language.core import extern_elementwise\n"
    + kernel(),
    "assembly imported by another name": "from triton.language import inline_asm_elementwise as load2\n"
    + kernel(),
    "imported over a builtin": "from triton.language import exp as range\n" + kernel(),
    "exec": HEAD + "exec('import os')\n",
    "__import__": HEAD + "__import__('os').system('id')\n",
    "dunder access": HEAD + "().__class__.__base__.__subclasses__()\n",
    "comprehension": HEAD + "[print(x) for x in range(3)]\n",
    "comprehension in a constant": HEAD + "N = [open(f) for f in ('a',)]\n",
    "walrus": HEAD + "(N := open('x'))\n",
    "lambda constant": HEAD + "f = lambda: 1\n",
    "f-string with a call": HEAD + "N = f'{open(1)}'\n",
    "attribute of a constant": HEAD + "N = 'x'.format\n",
    "class body": HEAD + "class A:\n    import os\n",
    "metaclass": HEAD + "class A(metaclass=print): pass\n",
    "for loop": HEAD + "for x in range(3): print(x)\n",
    "while": HEAD + "while True: pass\n",
    "with": HEAD + "with open('x') as f: pass\n",
    "try": HEAD + "try:\n    import os\nexcept Exception: pass\n",
    "del": HEAD + "del tl\n",
    "assert": HEAD + "assert open('x')\n",
    "raise": HEAD + "raise SystemExit\n",
    "global annotation": HEAD + "N: open('x') = 3\n",
    "annotated string": HEAD + "N: __import__('os') = 3\n",
    "another meaning for tl": HEAD + "tl = 3\n" + kernel(),
    "another meaning for triton_heuristics": HEAD + "triton_heuristics = 3\n",
    "two targets": HEAD + "a = b = 3\n",
    "attribute target": HEAD + "tl.load = 3\n",
    "subscript target": HEAD + "a = 1\na[0] = 3\n",
    "huge power": HEAD + "N = 9**9**9\n",
    "huge shift": HEAD + "N = 1 << 9999999999\n",
    "repeated string": HEAD + "N = 'x' * 10**10\n",
    "huge int": HEAD + "N = 0x" + "f" * 100 + "\n",
    "bytes": HEAD + "N = b'x'\n",
    "complex": HEAD + "N = 3j\n",
    "starred": HEAD + "N = [*open('x')]\n",
    "plain function": HEAD + "def f(x):\n    import os\n",
    "async function": HEAD + "async def f(): pass\n",
    "huge nesting": HEAD + "N = " + "(" * 300 + "1" + ")" * 300 + "\n",
    "nested lists": HEAD + "N = " + "[" * 150 + "1" + "]" * 150 + "\n",
    "nested minus": HEAD + "N = " + "-" * 100_000 + "1\n",
    "nested attributes": HEAD + "N = a" + ".b" * 50_000 + "\n",
    "null byte": HEAD + "N = 1\0\n",
    "too long": HEAD + "#" * 3_000_000 + "\n",
    "no Python": "def f(:\n",
    "lone surrogate": HEAD + "N = '\ud800' + open('x')\n",
    "encoding line": "# -*- coding: rot13 -*-\nvzcbeg bf\n",
    "print": HEAD + "print('\\x1b]0;owned\\x07')\n",
}

DECORATORS = {
    "decorator of its own": kernel(decorator="@print"),
    "decorator with a call": kernel(decorator="@__import__('os').system"),
    "decorator of another name": kernel(decorator="@triton_heuristics.CachingAutotuner(1)"),
    "decorator of a private name": kernel(decorator="@triton_heuristics._dump_launch_params(1)"),
    "a module in a heuristic": kernel(decorator="@triton_heuristics.os.system('id')"),
    "decorator below jit": kernel().replace("@triton.jit", "@triton.jit\n@print"),
    "jit of something else": kernel().replace("@triton.jit", "@triton.jit(repr=print)"),
    "jit with launch_metadata": kernel().replace(
        "@triton.jit", "@triton.jit(launch_metadata=lambda *a: 1)"
    ),
    "filename": kernel(decorator=DECORATOR.replace("__file__", "'/etc/passwd'")),
    "filename as a call": kernel(decorator=DECORATOR.replace("__file__", "open('x')")),
    "call in a size hint": kernel(decorator=DECORATOR.replace("64", "len(open('x').read())")),
    "call in the meta": with_meta("'x': __import__('os')"),
    "path in the meta": with_meta("'kernel_name': '../../../tmp/x'"),
    "absolute path in the meta": with_meta("'profile': '/tmp/x'"),
    "profile output": with_meta("'profile_bandwidth_output': 'x'"),
    "remote cache": with_meta("'autotune_remote_cache': True"),
    "double star": with_meta("**open('x')"),
    "comprehension in the meta": with_meta("'x': [open(f) for f in 'ab']"),
    "lambda in the meta": with_meta("'x': lambda: 1"),
    "f-string in the meta": with_meta("'x': f'{open(1)}'"),
    "code in a grid": with_meta(
        "'precomputed_grids': [{'config': {}, 'python': ['__import__(1)']}]"
    ),
    "call in a grid": with_meta("'precomputed_grids': [{'config': {}, 'python': ['(exit)(1)']}]"),
    "comprehension in a grid": with_meta(
        "'precomputed_grids': [{'config': {}, 'python': ['[x for x in (1,)]']}]"
    ),
    "argument that is code": with_meta("'extra_launcher_args': ['x=exit()']"),
    "dunder enum": kernel(
        decorator=DECORATOR.replace(
            "size_hints={'x': 64}", "reduction_hint=ReductionHint.__class__"
        )
    ),
    "constructor of something else": with_meta("'x': DeviceProperties.create(1)"),
    "star arguments": kernel(decorator="@triton_heuristics.pointwise(*open('x'))"),
    "autotune with a lambda": kernel(
        decorator="@triton.heuristics(values={'A': lambda args: exit()})"
    ),
    "autotune with prune": kernel(
        decorator="@triton.autotune(configs=[], key=[], prune_configs_by={'f': exit})"
    ),
    "ir_override": kernel(
        decorator="@triton.autotune(configs=[triton.Config({}, ir_override='x.ttir')], key=[])"
    ),
    "pre_hook": kernel(
        decorator="@triton.autotune(configs=[triton.Config({}, pre_hook=exit)], key=[])"
    ),
    "huge number in the meta": with_meta("'x': " + "9" * 50),
}

PARAMETERS = {
    "default argument": kernel(parameters="in_ptr0, x=open('x')"),
    "default comprehension": kernel(parameters="in_ptr0, x=[1 for _ in 'a']"),
    "default walrus": kernel(parameters="in_ptr0, x=(y := 1)"),
    "keyword default": kernel(parameters="in_ptr0, *, x=exit()"),
    "annotation": kernel(parameters="in_ptr0: open('x')"),
    "annotation by subscript": kernel(parameters="in_ptr0: tl.constexpr[open('x')]"),
    "annotation of a module": kernel(parameters="in_ptr0: tl.core.os"),
    "star args": kernel(parameters="*args"),
    "keyword args": kernel(parameters="**args"),
    "a parameter called tl": kernel("tl.load(1)", parameters="tl"),
    "return annotation": kernel().replace("tl.constexpr):", "tl.constexpr) -> open('x'):"),
    "a kernel called tl": kernel().replace("def hostile", "def tl"),
    "a dunder kernel": kernel().replace("def hostile", "def __getattr__"),
}

BODIES = {
    "a module of Triton's": kernel("tl.core.os.system('id')"),
    "sys through math": kernel("tl.math.core.os.system('id')"),
    "modules through helpers": kernel("triton_helpers.warnings.sys.exit(1)"),
    "os through helpers": kernel("triton_helpers.pymath.inf"),
    "setting through helpers": kernel("triton_helpers.set_driver_to_cpu()"),
    "runtime": kernel("triton.runtime.driver.active.x()"),
    "compile inside": kernel("triton.compile('/tmp/x.ttir')"),
    "knobs": kernel("triton.knobs.cache.dir"),
    "getattr": kernel("getattr(tl, 'core')"),
    "hasattr": kernel("hasattr(tl, 'core')"),
    "eval": kernel("eval('1')"),
    "open": kernel("open('/etc/passwd')"),
    "__import__ inside": kernel("__import__('os')"),
    "dunder method": kernel("x = (1).__class__"),
    "dunder of a module": kernel("tl.__builtins__"),
    "private name": kernel("tl._experimental"),
    "import inside": kernel("import os"),
    "lambda inside": kernel("x = lambda: 1"),
    "comprehension inside": kernel("x = [y for y in range(3)]"),
    "generator inside": kernel("x = (y for y in range(3))"),
    "walrus inside": kernel("x = (y := 1)"),
    "f-string inside": kernel("x = f'{tl.core}'"),
    "format": kernel("x = '{0.__class__}'.format(1)"),
    "nested function": kernel("def g(): pass"),
    "nested class": kernel("class A: pass"),
    "with inside": kernel("with tl.core: pass"),
    "try inside": kernel("try: pass\n    finally: pass"),
    "raise inside": kernel("raise ValueError"),
    "global": kernel("global tl"),
    "delete": kernel("del in_ptr0"),
    "power": kernel("x = 9**9**9"),
    "power of a constexpr": kernel("x = XBLOCK ** 9999999"),
    "shift": kernel("x = 1 << 9999999999"),
    "assigned power": kernel("x = 9\n    x **= 999999999"),
    "module assigned": kernel("x = tl\n    x.core.os.system('id')"),
    "tl rebound": kernel("tl = 1"),
    "loop over tl": kernel("for tl in range(3): pass"),
    "attribute assigned": kernel("tl.load = 1"),
    "attribute of a value assigned": kernel("in_ptr0.dtype = 1"),
    "starred call": kernel("tl.load(*in_ptr0)"),
    "double starred call": kernel("tl.load(**in_ptr0)"),
    "call of a call": kernel("tl.load(1)()"),
    "call of a subscript": kernel("in_ptr0[0]()"),
    "extern_elementwise": kernel(
        "tl.core.extern_elementwise('lib', '/tmp/evil.bc', [1], {}, is_pure=True)"
    ),
    "extern_elementwise of tl": kernel(
        "tl.extern_elementwise('lib', '/tmp/evil.bc', [1], {}, is_pure=True)"
    ),
    "libdevice's core": kernel("libdevice.core.os.system('id')"),
    "assembly that reads a file": kernel(
        "tl.inline_asm_elementwise('.incbin \"/etc/passwd\"', '=r', [1], tl.int32, True, 1)"
    ),
    "assembly behind a label": kernel(
        "tl.inline_asm_elementwise('nop; .include \"x\"', '=r', [1], tl.int32, True, 1)"
    ),
    "assembly behind a colon": kernel(
        "tl.inline_asm_elementwise('a: .incbin \"x\"', '=r', [1], tl.int32, True, 1)"
    ),
    "assembly in a variable": kernel(
        "a = 'nop'\n    tl.inline_asm_elementwise(a, '=r', [1], tl.int32, True, 1)"
    ),
    "assembly with an escape": kernel(
        "tl.inline_asm_elementwise('\\\\n.incbin', '=r', [1], tl.int32, True, 1)"
    ),
    "huge int inside": kernel("x = " + "9" * 100),
    "bytes inside": kernel("x = b'x'"),
    "deep nesting inside": kernel("x = " + "-" * 2_000 + "1"),
    "deep blocks": kernel(
        "\n".join("    " * i + "if True:" for i in range(1, 120)).strip()
        + "\n"
        + "    " * 121
        + "pass"
    ),
    "await": kernel("await in_ptr0"),
    "yield": kernel("yield 1"),
    "unknown name": kernel("x = hidden"),
    "match": kernel("match in_ptr0:\n        case _: pass"),
}

HOSTILE = {**TOP_LEVEL, **DECORATORS, **PARAMETERS, **BODIES}
