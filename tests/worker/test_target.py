"""These tests resolve every form of target in this process: which function is called, with which
arguments, and the message when the target is ambiguous.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fx_explorer.capture.recording.sources import CallSite
from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.program.calling import (
    SilentJob,
    advising,
    check_device,
    given_and_not_called,
    prepare_training,
    use_backend,
)
from fx_explorer.program.explaining import explain_refusal
from fx_explorer.program.place import TargetPlace, locate, nothing_compiled
from fx_explorer.program.target import Target, find_target
from fx_explorer.program.unused_results import result_never_called

Resolve = Callable[..., Target]

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(8, width)
    def forward(self, x):
        return self.fc(x)

"""

NEEDY = NET.replace("width=4", "width, depth")


@pytest.fixture(autouse=True)
def _untouched_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import triton  # noqa: F401 - its C part cannot be loaded twice, and torch may import it within a test

    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    yield
    for name in set(sys.modules) - before:
        if not name.startswith(("torch", "fx_explorer")):
            del sys.modules[name]


@pytest.fixture
def resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """``resolve(source, ":Net", inputs=…)`` → Target."""
    monkeypatch.chdir(tmp_path)

    def target(source: str, object_name: str = "", **options: object) -> Target:
        (tmp_path / "model.py").write_text(source)
        request = CaptureRequest(f"model.py{object_name}", "", **options)
        return find_target(locate(request), request, say=lambda activity: None)

    return target


def output(target: Target) -> torch.Tensor:
    result: torch.Tensor = target.callable(*target.arguments.args, **target.arguments.keywords)
    return result


def test_fx_explorer_target_comes_first(resolve: Resolve) -> None:
    target = resolve(
        NET + "def double(x, by=2): return x * by\n"
        "def fx_explorer_target(): return double, (torch.ones(3),), {'by': 5}\n"
        "model = Net(); example_inputs = torch.ones(8)\n"
    )
    assert (target.name, target.kind) == ("double", "function")
    assert output(target).tolist() == [5, 5, 5]


@pytest.mark.parametrize("answer", ["double", "(double,)", "(double, [torch.ones(3)])"])
def test_fx_explorer_target_may_leave_out_what_is_empty(resolve: Resolve, answer: str) -> None:
    target = resolve(
        f"import torch\ndef double(x=1): return x * 2\ndef fx_explorer_target(): return {answer}"
    )
    assert target.name == "double"


@pytest.mark.parametrize(
    "answer", ["None", "(1, ())", "(print, {}, ())", "(print, (), {}, 4)", "()"]
)
def test_a_wrong_answer_of_fx_explorer_target_is_shown(resolve: Resolve, answer: str) -> None:
    with pytest.raises(TargetError, match=r"must return \(callable, args, kwargs\)"):
        resolve(f"def fx_explorer_target(): return {answer}")


def test_model_and_example_inputs(resolve: Resolve) -> None:
    target = resolve(NET + "model = Net(2)\nexample_inputs = (torch.ones(3, 8),)")
    assert (target.name, target.kind) == ("Net", "module")
    assert output(target).shape == (3, 2)


def test_get_model_with_inputs_by_name_from_a_function(resolve: Resolve) -> None:
    target = resolve(
        NET + "def get_model(): return Net(3)\ndef example_inputs(): return {'x': torch.ones(5, 8)}"
    )
    assert target.arguments.args == ()
    assert output(target).shape == (5, 3)


def test_the_one_module_class_is_built(resolve: Resolve) -> None:
    assert output(resolve(NET + "example_inputs = torch.ones(1, 8)")).shape == (1, 4)


def test_imported_classes_do_not_count_as_the_files_own(resolve: Resolve) -> None:
    source = NET.replace(
        "from torch import nn", "from torch import nn\nfrom torch.nn import Linear"
    )
    assert resolve(source + "example_inputs = torch.ones(1, 8)").name == "Net"


def test_several_classes_must_be_told_apart(resolve: Resolve) -> None:
    with pytest.raises(TargetError, match=r"several models \(Net, Other\).*model\.py:Net"):
        resolve(NET + "class Other(Net): pass\nexample_inputs = torch.ones(1, 8)")


def test_a_class_that_needs_arguments_names_them_and_the_option(resolve: Resolve) -> None:
    with pytest.raises(
        TargetError,
        match=r"it needs width, depth\. Give the arguments with --call 'Net\(width=…\)'",
    ):
        resolve(NEEDY + "example_inputs = torch.ones(1, 8)")


def test_call_and_inputs_are_evaluated_among_the_files_names(resolve: Resolve) -> None:
    target = resolve(NEEDY + "ROWS = 7", call="Net(5, depth=1)", inputs="torch.ones(ROWS, 8)")
    assert output(target).shape == (7, 5)


def test_torch_is_there_for_inputs_even_if_the_file_does_not_import_it(resolve: Resolve) -> None:
    assert output(
        resolve("def double(x): return x * 2", ":double", inputs="(torch.ones(2),)")
    ).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"call": "Net(", "inputs": "1"}, r"--call 'Net\(' is not a Python expression"),
        ({"call": "Nett()"}, r"name 'Nett' is not defined.*It has Net"),
        ({"call": "3"}, r"gives a int, which cannot be called"),
        ({"call": "Net()"}, r"no inputs for Net.*takes x.*--inputs"),
        ({"call": "Net()", "inputs": "{1: 2}"}, r"keys are not all strings"),
    ],
)
def test_expressions_that_do_not_work_say_why(
    resolve: Resolve, options: dict[str, str], message: str
) -> None:
    with pytest.raises(TargetError, match=message):
        resolve(NET, **options)


def test_an_error_in_the_users_own_code_is_not_ours_to_explain(resolve: Resolve) -> None:
    with pytest.raises(ZeroDivisionError):
        resolve("def make(): return 1 / 0", call="make()")
    with pytest.raises(NameError, match="inner"):
        resolve("def make(): return inner", call="make()")


def test_an_object_may_be_a_class_an_instance_a_function_or_an_attribute(resolve: Resolve) -> None:
    source = (
        NET
        + "net = Net(2)\ndef f(x): return x + 1\nclass Space: g = f\nexample_inputs = torch.ones(1, 8)"
    )
    shapes = {
        name: output(resolve(source, f":{name}")).shape[-1]
        for name in ("Net", "net", "f", "Space.g", "net.fc")
    }
    assert shapes == {"Net": 4, "net": 2, "f": 8, "Space.g": 8, "net.fc": 2}


def test_an_object_that_is_not_there_gets_the_names_that_are(resolve: Resolve) -> None:
    with pytest.raises(TargetError, match=r"model\.py has no 'Nett'\. It has Net"):
        resolve(NET, ":Nett")
    with pytest.raises(TargetError, match="which cannot be called"):
        resolve(NET + "ROWS = 7", ":ROWS")


def test_a_function_without_parameters_needs_no_inputs(resolve: Resolve) -> None:
    assert output(resolve("import torch\ndef step(): return torch.ones(2)", ":step")).tolist() == [
        1,
        1,
    ]


def test_a_module_is_imported_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fx_pkg").mkdir()
    (tmp_path / "fx_pkg" / "__init__.py").touch()
    (tmp_path / "fx_pkg" / "nets.py").write_text(
        NET + "from . import __name__ as package\nexample_inputs = torch.ones(1, 8)"
    )
    monkeypatch.chdir(tmp_path)
    for written in ("fx_pkg.nets:Net", "fx_pkg.nets"):
        request = CaptureRequest(written, "")
        assert find_target(locate(request), request, lambda activity: None).name == "Net"


def test_a_module_that_is_not_there_is_told_apart_from_one_that_fails_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fx_broken.py").write_text("import fx_missing_dependency")
    with pytest.raises(TargetError, match="no module 'fx_absent'"):
        resolve_module("fx_absent.nets:Net")
    with pytest.raises(ModuleNotFoundError, match="fx_missing_dependency"):
        resolve_module("fx_broken:Net")


def test_a_file_that_needs_its_package_is_told_how_to_be_named(tmp_path: Path) -> None:
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "nets.py").write_text(
        "from . import other\n" + NET + "example_inputs = torch.ones(1, 8)"
    )
    with pytest.raises(TargetError, match=rf"Start in {tmp_path} .* outer\.inner\.nets:OBJECT"):
        resolve_module(str(package / "nets.py"))


def resolve_module(written: str) -> Target:
    request = CaptureRequest(written, "")
    return find_target(locate(request), request, lambda activity: None)


def test_a_target_called_like_a_standard_module_does_not_replace_it(tmp_path: Path) -> None:
    import types

    (tmp_path / "types.py").write_text(NET + "example_inputs = torch.ones(1, 8)")
    assert resolve_module(str(tmp_path / "types.py")).name == "Net"
    assert sys.modules["types"] is types


def test_an_unknown_backend_names_those_there_are() -> None:
    with pytest.raises(TargetError, match=r"no backend 'inducter'.*aot_eager.*inductor"):
        use_backend("inducter")
    use_backend("aot_eager")


class TestBackendOfAFile:
    """``--backend FILE.py:FUNCTION``, in every command."""

    def test_it_is_found_under_these_words(self, tmp_path: Path) -> None:
        file = tmp_path / "backends.py"
        file.write_text(
            "def mine(gm, inputs):\n    mine.graphs = getattr(mine, 'graphs', 0) + 1\n    return gm.forward\n"
        )
        use_backend(f"{file}:mine")
        use_backend(f"{file}:mine")
        torch._dynamo.reset()
        assert torch.compile(lambda x: x + 1, backend=f"{file}:mine")(torch.zeros(1)) == 1
        assert torch._dynamo.backends.registry.lookup_backend(f"{file}:mine").graphs == 1  # type: ignore[attr-defined]

    def test_a_method_is_one_too(self, tmp_path: Path) -> None:
        file = tmp_path / "methods.py"
        file.write_text(
            "class Of:\n    def make(self, gm, inputs):\n        return gm.forward\nmine = Of().make\n"
        )
        use_backend(f"{file}:mine")
        torch._dynamo.reset()
        assert torch.compile(lambda x: x + 1, backend=f"{file}:mine")(torch.zeros(1)) == 1

    @pytest.mark.parametrize(
        ("content", "name", "told"),
        [
            (None, "mine", "there is no such file"),
            ("raise ValueError('no')", "mine", r"ValueError: no \(line 1 of"),
            (
                "def other(): ...",
                "mine",
                "has nothing named 'mine' that could be a backend; the callables of backends.py are other$",
            ),
            (
                "mine = 3",
                "mine",
                "is not callable: it is of type int; backends.py has no callable of its own$",
            ),
            (
                "from math import sqrt\nclass A: ...\nb = lambda gm, i: gm\n_c = b",
                "mine",
                "the callables of backends.py are A, b$",
            ),
        ],
    )
    def test_what_is_none_is_a_usage_error(
        self, tmp_path: Path, content: str | None, name: str, told: str
    ) -> None:
        file = tmp_path / "backends.py"
        if content is not None:
            file.write_text(content)
        with pytest.raises(TargetError, match=told) as raised:
            use_backend(f"{file}:{name}")
        assert raised.value.exit_code == 2

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (
                "\ndef mine(gm, inputs):\n    gm.print_readable",
                r"the backend mine \({file}:2\) returned None",
            ),
            (
                "def mine(gm, inputs): return 'x'",
                r"the backend mine \({file}:1\) returned an object of type str",
            ),
            (
                "class Of:\n    def __call__(self, gm, inputs): return 3\nmine = Of()",
                r"the backend (Of\.)?__call__ \({file}:2\) returned an object of type int",
            ),
        ],
    )
    def test_one_that_returns_no_callable_is_told_by_its_place(
        self, tmp_path: Path, content: str, told: str
    ) -> None:
        file = tmp_path / "backends.py"
        file.write_text(content)
        use_backend(f"{file}:mine")
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
            torch.compile(lambda x: x + 1, backend=f"{file}:mine")(torch.zeros(1))
        words = explain_refusal(raised.value)
        assert re.match(told.format(file=re.escape(str(file))), words)
        assert "A backend must return a callable" in words

    def test_one_that_raises_is_told_in_its_own_words(self, tmp_path: Path) -> None:
        file = tmp_path / "backends.py"
        file.write_text("def mine(gm, inputs): raise AssertionError('mine')")
        use_backend(f"{file}:mine")
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised:
            torch.compile(lambda x: x + 1, backend=f"{file}:mine")(torch.zeros(1))
        assert explain_refusal(raised.value) == ""


@pytest.mark.parametrize("name", ["cpuu", "cuda:77"])
def test_a_device_that_is_not_here_is_a_usage_error(name: str) -> None:
    with pytest.raises(TargetError, match=f"--device {name} cannot be used here"):
        check_device(name)


class TestTraining:
    """With backward or without: by default when something requires grad."""

    def test_default_follows_parameters_inputs_and_grad_mode(self, resolve: Resolve) -> None:
        trained = resolve(NET + "example_inputs = torch.ones(1, 8)")
        frozen = resolve(
            NET + "model = Net().requires_grad_(False)\nexample_inputs = torch.ones(1, 8)"
        )
        by_input = resolve(
            "import torch\ndef f(x): return x\nexample_inputs = torch.ones(2, requires_grad=True)",
            ":f",
        )
        assert [prepare_training(t, None)[1] for t in (trained, frozen, by_input)] == [
            True,
            False,
            True,
        ]
        with torch.no_grad():
            assert not prepare_training(trained, None)[1]
        assert not prepare_training(trained, False)[1]

    def test_train_makes_float_inputs_require_grad_and_leaves_integers(
        self, resolve: Resolve
    ) -> None:
        target = resolve(
            "import torch\ndef f(x, ids): return x\nexample_inputs = (torch.ones(2), torch.ones(2).long())",
            ":f",
        )
        ready, train = prepare_training(target, True)
        assert train
        assert [t.requires_grad for t in ready.arguments.tensors()] == [True, False]

    def test_train_without_anything_differentiable_is_refused(self, resolve: Resolve) -> None:
        target = resolve(
            "import torch\ndef f(ids): return ids\nexample_inputs = torch.ones(2).long()", ":f"
        )
        with pytest.raises(
            TargetError, match=r"--train: neither .* f .*\(int64\[2\]\).*--no-train"
        ):
            prepare_training(target, True)


KERNELBENCH = (
    NEEDY.replace("class Net", "class Model").replace("depth)", "depth=1)")
    + """
class Helper(nn.Module):
    pass

def get_inputs():
    return [torch.ones(2, 8)]

def get_init_inputs():
    return [5]
"""
)


@pytest.mark.parametrize("init", ["[5]", "[[], {'width': 5}]", "[[5], {}]"])
def test_a_file_of_kernelbench_is_its_model_with_its_inputs(resolve: Resolve, init: str) -> None:
    source = KERNELBENCH.replace("return [5]", f"return {init}")
    target = resolve(source)
    assert (target.name, target.arguments.origin) == ("Model", "get_inputs()")
    assert output(target).shape == (2, 5)
    named = resolve(source, ":Model", inputs="torch.ones(3, 8)")
    assert output(named).shape == (3, 5)


def test_a_function_called_model_may_make_the_model(resolve: Resolve) -> None:
    made = resolve(
        NET + "def model(width=6): return Net(width)\nexample_inputs = torch.ones(2, 8)\n"
    )
    assert (made.name, made.kind) == ("Net", "module")
    assert output(made).shape == (2, 6)
    plain = resolve(NET + "def model(x=None): return x\nexample_inputs = torch.ones(2, 8)\n")
    assert (plain.name, plain.kind) == ("model", "function")


def test_what_was_given_to_compile_is_suggested_and_not_the_files_first_function(
    tmp_path: Path,
) -> None:
    file = tmp_path / "silent.py"
    file.write_text(
        "import torch\ndef backend(gm, inputs): return gm\ndef bar(a, b): return a * b\ntorch.compile(bar)\n"
    )
    place = TargetPlace("silent.py", file, is_script=True)
    given = {"bar": CallSite(str(file), 4)}
    message = nothing_compiled(place, Outcome("finished"), given_and_not_called(given), list(given))
    assert "it gave bar (silent.py:4, whose result is thrown away) to torch.compile" in message
    assert "fx-explorer silent.py:bar --inputs 'a, b'" in message
    assert "silent.py:backend" not in message


def test_a_backend_is_not_suggested_as_what_to_compile(tmp_path: Path) -> None:
    file = tmp_path / "tabular.py"
    file.write_text(
        "import torch\ndef show(gm, inputs): return gm\ndef bar(a): return a\n"
        "def make(): return torch.compile(bar, backend=show)\n"
    )
    place = TargetPlace("tabular.py", file, is_script=True)
    message = nothing_compiled(place, Outcome("finished"), "")
    assert "fx-explorer tabular.py:bar --inputs 'a'" in message


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a = torch.compile(f)\n", 1, "bound to the name a and never called"),
        ("a = torch.compile(f)\na(1)\n", 1, ""),
        ("a = torch.compile(f)\ng(a)\n", 1, ""),
        ("a = torch.compile(f)\na.forward(1)\n", 1, ""),
        ("a = torch.compile(f)\ndef g(): return a(1)\n", 1, ""),
        ("a = torch.compile(backend='eager')\n", 1, ""),
        ("self.ATTR = torch.compile(f)\n", 1, "bound to the attribute self.ATTR and never called"),
        ("self.ATTR = torch.compile(f)\nself.ATTR(1)\n", 1, ""),
        ("self.ATTR = torch.compile(f)\ndef g(b): return b.ATTR(1)\n", 1, ""),
        ("b.ATTR = torch.compile(b.ATTR)\n", 1, ""),
        ("b.forward = torch.compile(f)\n", 1, ""),
        ("class A:\n    a = torch.compile(f)\n", 2, ""),
        (
            "def load(self):\n    self = torch.compile(self)\n    self.eval()\n",
            2,
            "bound to the local name self and never called",
        ),
        (
            "def load(f):\n    f = torch.compile(f)\n",
            2,
            "bound to the local name f, a parameter of load, and never called",
        ),
        ("def load(f):\n    f = torch.compile(f)\n    return f\n", 2, ""),
        (
            "a = torch.compile(f)\na.eval()\na.encode(1)\n",
            1,
            "bound to the name a; line 3 calls a.encode, a method of the original module, which "
            "runs in eager mode",
        ),
        (
            "a.compile()\na.forward(1)\n",
            1,
            "compiled in place; line 2 calls a.forward(…) instead of a(…)",
        ),
        ("a.compile()\na(1)\n", 1, "compiled in place"),
    ],
)
def test_a_result_of_compile_that_the_source_never_calls_is_told(
    text: str, line: int, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "lazy.py"
    attribute = "hurried" * 2  # in no file of the tests: an attribute that one reads is called
    file.write_text(text.replace("ATTR", attribute))
    unused = result_never_called(CallSite(str(file), line)).replace(attribute, "ATTR")
    assert unused.removeprefix("whose result is ") == reason


class Listening(SilentJob):
    def __init__(self) -> None:
        super().__init__(CaptureRequest("model.py", ""))
        self.activities: list[str] = []

    def say(self, activity: str) -> None:
        self.activities.append(activity)


def advice(target: Target) -> list[str]:
    """Return the sentences of advice on a target that raises; none is given before it does."""
    job = Listening()
    try:
        with advising(target, job):
            output(target)
    except (TypeError, AttributeError, IndexError, RuntimeError):
        return job.activities
    return [*job.activities, "it did not raise"]


PAIR = "fx_explorer_target() return (callable, args, kwargs)"
ITSELF = "itself is passed as the only argument; write tuple(…) around it"


@pytest.mark.parametrize(
    ("inputs", "advised"),
    [
        ("((), {'x': ROWS})", PAIR),
        ("((ROWS,), {})", PAIR),
        ("[[ROWS], {'x': ROWS}]", PAIR),
        ("lambda: ((), {'x': ROWS})", PAIR),
        ("(row for row in [ROWS])", f"the generator {ITSELF}"),
        ("lambda: iter([ROWS])", f"the list_iterator {ITSELF}"),
        ("{'x': ROWS}.items()", f"the dict_items {ITSELF}"),
        ("{ROWS}", f"the set {ITSELF}"),
        ("torch.utils.data.DataLoader([ROWS])", f"the DataLoader {ITSELF}"),
        ("torch.utils.data.TensorDataset(ROWS)", f"the TensorDataset {ITSELF}"),
        ("'torch.ones(2, 8)'", "write the inputs without quotes"),
        ("None", "a function must return the inputs"),
        ("lambda: None", "a function must return the inputs"),
        ("[[ROWS]]", "leave out the brackets around it"),
        ("(2, 8)", "write torch.randn(…) for a tensor of that size"),
        ("torch.ones(2, 9)", ""),
        ("(ROWS, ROWS)", ""),
        ("{'y': ROWS}", ""),
        ("()", ""),
    ],
)
def test_a_call_that_fails_says_what_may_be_wrong_with_the_inputs(
    resolve: Resolve, inputs: str, advised: str
) -> None:
    source = NET + "ROWS = torch.ones(2, 8)\nmodel = Net()\n"
    for origin, target in (
        ("example_inputs", resolve(f"{source}example_inputs = {inputs}\n")),
        ("--inputs", resolve(source, inputs=inputs)),
    ):
        sentences = advice(target)
        assert len(sentences) == bool(advised), sentences
        for sentence in sentences:
            assert sentence.startswith(f"calling Net with {target.arguments.describe()}")
            assert f" from {origin}: " in sentence
            assert advised in sentence


@pytest.mark.parametrize("inputs", ["ROWS", "[ROWS]", "(ROWS,)", "{'x': ROWS}", "lambda: ROWS"])
def test_a_call_that_does_not_fail_says_nothing(resolve: Resolve, inputs: str) -> None:
    source = NET + f"ROWS = torch.ones(2, 8)\nmodel = Net()\nexample_inputs = {inputs}\n"
    assert advice(resolve(source)) == ["it did not raise"]


def test_a_function_that_gives_inputs_takes_no_arguments(resolve: Resolve) -> None:
    message = "example_inputs is a function that takes rows, but it is called without arguments"
    with pytest.raises(TargetError, match=message):
        resolve(NET + "model = Net()\ndef example_inputs(rows): return torch.ones(rows, 8)")


def test_a_function_that_makes_inputs_is_part_of_the_suggested_command(tmp_path: Path) -> None:
    file = tmp_path / "factory.py"
    file.write_text("def get_inputs():\n    return ()\n\ndef get_model():\n    return None\n")
    place = locate(CaptureRequest(str(file), "x.fxs"))
    message = nothing_compiled(place, Outcome("finished"), "")
    assert "factory.py:get_model --inputs 'get_inputs()'," in message
