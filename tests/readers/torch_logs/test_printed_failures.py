"""These tests read the failures of what a terminal shows when a compilation fails, with and without
TORCH_LOGS.

tests/data/torch_logs/crashes has the output of torch 2.13 on a CPU (2.11 on an H200 for those of
Triton) for programs that fail in each stage; paths were replaced. Stage, class and message are
those that TORCH_TRACE wrote in its metrics for the same programs.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.whole_session import end_of_log
from fx_explorer.findings.every_kind import findings
from fx_explorer.overview.ending import failures
from fx_explorer.overview.overview import overview
from fx_explorer.readers.printed_tracebacks import OtherLine, find_tracebacks
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.readers.torch_trace.read_log import read_log
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

CRASHES = Path(__file__).parents[2] / "data" / "torch_logs" / "crashes"

BACKEND = "BackendCompilerFailed: backend='my_backend' raised: ValueError: cannot compile"


def unpacked(name: str, folder: Path) -> Path:
    text = folder / f"{name}.txt"
    text.write_bytes(gzip.decompress((CRASHES / f"{name}.txt.gz").read_bytes()))
    return text


def opened(name: str, folder: Path) -> SessionReader:
    read_text(unpacked(name, folder), folder / "s.fxs")
    return SessionReader(folder / "s.fxs")


@pytest.mark.parametrize(
    ("name", "compilation", "stage", "kind", "message", "place"),
    [
        ("aot.plain", "?/?", "joint", "BackendCompilerFailed",
         "BackendCompilerFailed: backend='inductor' raised: RuntimeError: shape '[7, 7]' is",
         ("aot.py", 26)),
        ("aot.logs", "0/0", "joint", "BackendCompilerFailed", "BackendCompilerFailed: ",
         ("aot.py", 26)),
        ("backward.plain", "0/0", "post_grad", "InductorError",
         "the backward could not be compiled: InductorError: LoweringException: "
         "NotImplementedError: gradient has no lowering", ("backward.py", 29)),
        ("cxx.plain", "0/0", "kernel", "InductorError",
         "InductorError: CppCompileError: C++ compile error Command: ", ("cxx.py", 7)),
        ("cxx.logs", "0/0", "kernel", "InductorError", "InductorError: CppCompileError", None),
        ("dynamo_shapes.plain", "0/0", "dynamo", "TorchRuntimeError",
         "TorchRuntimeError: RuntimeError when making fake tensor call", ("dynamo_shapes.py", 11)),
        ("lowering.plain", "0/0", "post_grad", "InductorError",
         "InductorError: LoweringException: NotImplementedError: odd has no lowering",
         ("lowering.py", 19)),
        ("lowering.logs", "0/0", "post_grad", "InductorError", "InductorError: ", None),
        ("user_backend.plain", "?/?", "backend", "BackendCompilerFailed",
         f"{BACKEND} 5 nodes", ("user_backend.py", 5)),
        ("user_backend.dynamo", "0/0", "backend", "BackendCompilerFailed",
         f"{BACKEND} 5 nodes", ("user_backend.py", 5)),
        ("suppressed.plain", "?/?", "backend", "BackendCompilerFailed", BACKEND,
         ("suppressed.py", 6)),
        ("suppressed.logs", "0/0", "backend", "BackendCompilerFailed", BACKEND,
         ("suppressed.py", 6)),
        ("triton_big.plain", "?/?", "kernel", "InductorError",
         "InductorError: RuntimeError: No valid triton configs. OutOfResources: out of resource: "
         "shared memory, Required: 524288, Hardware limit: 232448.", None),
        ("triton_wrong.plain", "?/?", "kernel", "InductorError",
         "InductorError: CompileTimeAssertionFailure: at 3:4: def wrong(", None),
        ("triton_wrong.verbose", "?/?", "kernel", "InductorError",
         "InductorError: CompileTimeAssertionFailure: at 3:4: def wrong(", None),
    ],
)  # fmt: skip
def test_a_printed_failure_is_a_row_with_stage_error_and_line(
    name: str,
    compilation: str,
    stage: str,
    kind: str,
    message: str,
    place: tuple[str, int] | None,
    tmp_path: Path,
) -> None:
    assert kind_of_file(unpacked(name, tmp_path)).kind == "torch_logs"
    with opened(name, tmp_path) as reader:
        (told,) = failures(reader)
        row = told.failure
        assert (row.where, row.stage, row.kind) == ("compiler", stage, kind)
        assert told.compilation == compilation
        assert row.message.startswith(message)
        if place:
            assert (Path(told.file).name, told.line) == place
        (finding,) = [one for one in findings(reader) if one.kind == "compiler error"]
        assert "could not be compiled: an error was raised" in finding.text
        assert finding.text in [fact.text for fact in overview(reader)]


def test_a_break_with_fullgraph_is_told_as_in_a_capture(tmp_path: Path) -> None:
    with opened("dynamo_unsupported.plain", tmp_path) as reader:
        (told,) = failures(reader)
        (finding,) = findings(reader)
    assert (told.failure.where, told.failure.kind) == ("program", "Unsupported")
    assert finding.text == "f breaks the graph, which is an error with fullgraph=True."
    assert (Path(told.file).name, told.line) == ("dynamo_unsupported.py", 4)
    assert "dynamo_unsupported.py:4: torch._dynamo.graph_break()" in finding.evidence[0]


def test_a_suppressed_error_says_that_the_function_ran_in_eager_mode(tmp_path: Path) -> None:
    with opened("suppressed.plain", tmp_path) as reader:
        (finding,) = [one for one in findings(reader) if one.kind == "compiler error"]
        (row,) = reader.rows(model.Compilation, status="failed")
    assert finding.text.endswith("and it runs in eager mode, because suppress_errors is set.")
    assert (row.function, row.line) == ("f", 8)


def test_each_traceback_that_a_program_printed_is_a_failure_of_its_own(tmp_path: Path) -> None:
    with opened("caught.plain", tmp_path) as reader:
        told = failures(reader)
    assert [one.compilation for one in told] == ["?/?", "?/?#2"]


def test_a_backward_that_fails_leaves_its_forward_compiled(tmp_path: Path) -> None:
    with opened("backward.logs", tmp_path) as reader:
        (finding,) = [one for one in findings(reader) if one.kind == "compiler error"]
        statuses = {row.name: row.status for row in reader.rows(model.Compilation)}
    assert statuses["0/0"] == "ok"
    assert finding.text.startswith("The backward of f could not be compiled: ")


def test_what_the_text_does_not_name_is_said(tmp_path: Path) -> None:
    with opened("aot.plain", tmp_path) as reader:
        facts = {fact.text: fact for fact in overview(reader)}
        (finding,) = findings(reader)
    nameless = "A function whose name this text does not have could not be compiled"
    assert finding.text.startswith(nameless)
    assert finding.text in facts
    assert "It was compiled for the call at aot.py:35" in finding.evidence[-1]
    of_text = facts["aot.plain.txt has none of torch's messages."]
    assert "how other compilations ended" in of_text.detail


def test_a_lowering_of_the_programs_own_is_no_fault_of_pytorch(tmp_path: Path) -> None:
    with opened("lowering.plain", tmp_path) as reader:
        (finding,) = findings(reader)
    assert "PyTorch bug" not in finding.explanation


def test_ask_names_a_printed_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", str(unpacked("cxx.logs", tmp_path)), "failures"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"] == "1 failure."
    assert answer["rows"][0]["stage"] == "kernel"


PREFIXES = {
    "as printed": "",
    "by torchrun": "[rank3]: ",
    "by torchrun with its own prefix": "[default0]:[rank0]: ",
    "quoted": "> ",
    "indented": "      ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_traceback_is_found_behind_what_stands_before_its_lines(
    prefix: str, tmp_path: Path
) -> None:
    plain = unpacked("user_backend.plain", tmp_path).read_text()
    lines = [OtherLine(at, prefix + line, "", False) for at, line in enumerate(plain.split("\n"))]
    (found,) = find_tracebacks(lines)
    assert [error.path for error in found.errors] == ["torch._dynamo.exc.BackendCompilerFailed"]
    assert found.stage == "backend"


def test_what_pytest_shows_of_a_failure_is_a_failure_without_a_stage() -> None:
    shown = (
        "    def test_it():\n"
        ">       f(x)\n\n"
        "test_it.py:12: \n"
        "_ _ _ _ _ _\n"
        "E       torch._inductor.exc.InductorError: CppCompileError: C++ compile error\n"
        "E       \n"
        "E       Output:\n"
        "E       header.hpp: error\n"
        "test_it.py:12: InductorError\n"
    )
    lines = [OtherLine(at, line, "", False) for at, line in enumerate(shown.split("\n"))]
    (found,) = find_tracebacks(lines)
    assert found.compiler_error is not None
    assert found.compiler_error.kind == "InductorError"
    assert "header.hpp: error" in found.compiler_error.message
    assert found.stage is None


def test_a_programs_own_error_is_no_failed_compilation(tmp_path: Path) -> None:
    text = tmp_path / "own.txt"
    text.write_text(
        unpacked("user_backend.plain", tmp_path).read_text()
        + "Traceback (most recent call last):\n"
        '  File "/home/me/project/train.py", line 11, in <module>\n    main()\n'
        '  File "/opt/venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 1177,'
        " in compile_wrapper\n    return fn(*args)\n"
        '  File "/home/me/project/train.py", line 9, in main\n    return y.reshape(7)\n'
        "RuntimeError: shape '[7]' is invalid for input of size 4\n"
    )
    read_text(text, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        told = failures(reader)
    assert [(one.failure.where, one.failure.kind) for one in told] == [
        ("compiler", "BackendCompilerFailed"),
        ("program", "RuntimeError"),
    ]


def test_a_traceback_that_is_cut_off_says_nothing(tmp_path: Path) -> None:
    plain = unpacked("user_backend.plain", tmp_path).read_text()
    cut = plain.partition("torch._dynamo.exc.")[0].split("\n")
    lines = [OtherLine(at, line, "", False) for at, line in enumerate(cut)]
    assert not list(find_tracebacks(lines))


TRACE = CRASHES / "backward_failed.log.gz"
"""The same program as backward.plain, with TORCH_TRACE: its records without payload."""


def test_a_structured_log_says_that_the_backward_could_not_be_compiled(tmp_path: Path) -> None:
    read_log(TRACE, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        (told,) = failures(reader)
        (finding,) = [one for one in findings(reader) if one.kind == "compiler error"]
        (row,) = reader.rows(model.Compilation)
    assert (told.compilation, told.failure.stage, told.failure.kind) == (
        "0/0",
        "post_grad",
        "InductorError",
    )
    assert row.status == "ok"
    assert finding.text.startswith("The backward of f could not be compiled")


GUARD_FAILED = "\n".join(
    f"E1130 19:17:09.595000 3692 torch/_guards.py:375] [0/1] {line}"
    for line in (
        "Error while creating guard:",
        "Name: ''",
        "    Create Function: SHAPE_ENV",
        "Traceback (most recent call last):",
        '  File "/v/torch/fx/experimental/symbolic_shapes.py", line 6731, in produce_guards_verbose',
        "    raise ConstraintViolationError(",
        "torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints violated "
        "(L['x'].size()[0])!",
        "  - You marked L['x'].size()[0] as dynamic but your code specialized it to be (8).",
        "",
        "User stack:",
        '  File "/home/user/net.py", line 30, in forward',
        "    return s.softmax(-1) + self.bias",
    )
)
"""What torch 2.13.0 prints of guards that it cannot make, for a program that handles the error."""


@pytest.mark.parametrize("ends_the_program", [False, True])
def test_guards_that_cannot_be_made_are_a_failure(ends_the_program: bool, tmp_path: Path) -> None:
    after = "Traceback (most recent call last):\n  …" if ends_the_program else "caught it"
    (tmp_path / "log.txt").write_text(f"{GUARD_FAILED}\n{after}\n")
    read_text(tmp_path / "log.txt", tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        (failure,) = reader.rows(model.Failure)
        (compilation,) = reader.rows(model.Compilation, name="0/1")
        end = end_of_log(reader)
    assert (failure.where, failure.stage) == ("compiler", "dynamo")
    assert failure.compilation == compilation.id
    assert failure.kind == "ConstraintViolationError"
    assert "Constraints violated" in failure.message
    assert compilation.status == "failed"
    assert ("did not end the program, or the text is incomplete" in end) is not ends_the_program
