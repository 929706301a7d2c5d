"""These tests check ``fx-explorer ask``: each question answers with what the session has, in a
bounded length, says what was cut, and how it is known.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.answers.answer import AS_BEFORE, Answer, Pages, RowSelection, answer_text
from fx_explorer.answers.others import of_failures
from fx_explorer.answers.questions import QUESTIONS
from fx_explorer.cli import main
from fx_explorer.instruments.passes.report import changes_of_report
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import ROOT, Captured
from tests.exhaustive import with_others
from tests.sessions import Written

DATA = ROOT / "tests" / "data"
SCHEMA = ROOT / "docs" / "reference" / "answer-schema.json"

Ask = Callable[..., dict[str, Any]]

WITHOUT_ABOUT = [
    question.name for question in QUESTIONS if not question.takes or question.takes.startswith("[")
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "whole.fxs"
    whole = DATA / "screens" / "whole.fxs.gz"
    path.write_bytes(gzip.decompress(whole.read_bytes()))
    return path


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """``ask(session, "kernel", "name", "--limit", "2")`` → the answer."""

    def asked(session: Path, *words: str) -> dict[str, Any]:
        assert main(["ask", str(session), *words]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return asked


def first_source_line(session: Path) -> str:
    """Return a line of the source from which a node comes."""
    with SessionReader(session) as reader:
        for node in reader.rows(model.Node):
            if node.file and node.op.startswith("call"):
                path = reader.get(model.SourceFile, node.file).path
                return f"{path}:{node.line}"
    raise AssertionError("no node has a line")


@pytest.mark.parametrize("name", WITHOUT_ABOUT)
def test_each_question_is_answered_as_its_schema_says(
    session: Path, ask: Ask, validator: jsonschema.Draft202012Validator, name: str
) -> None:
    answer = ask(session, name, "--fields", "all", "--characters", "100000")
    validator.validate(answer)
    assert answer["question"] == name
    assert answer["session"] == str(session)
    assert answer["answer"]
    assert answer["known_from"]


PLACES = (
    "at", "file", "line", "lines", "code_at", "called_from", "called_at", "asked_for_by", "stack",
    "first_line", "second_line", "consumer_lines",
)  # fmt: skip
"""The fields that say where something is."""

OF_PROGRAM = (
    "findings", "breaks", "eager", "calls", "compilations", "recompiles", "guards", "kernels",
    "why", "memory", "lines", "side_effects", "values", "failures", "trace",
)  # fmt: skip
"""Questions about what the program's own code became: each row stems from a line."""


@pytest.mark.parametrize("name", OF_PROGRAM)
def test_an_answer_about_the_program_names_session_place_and_evidence(
    session: Path, ask: Ask, name: str
) -> None:
    answer = ask(session, name, "--fields", "all", "--characters", "100000", "--limit", "1000")
    assert answer["session"] == str(session)
    assert answer["known_from"]
    assert answer["program"]
    placed = [row for row in answer["rows"] if any(place in row for place in PLACES)]
    assert placed or not answer["rows"], name


def test_nodes_match_file_names_only_where_a_file_is_asked_for(session: Path, ask: Ask) -> None:
    graph = str(ask(session, "graphs")["rows"][0]["number"])
    file = Path(first_source_line(session).rpartition(":")[0])
    assert ask(session, "nodes", graph, "--match", file.name)["rows"]
    rows = ask(session, "nodes", graph, "--match", file.stem, "--fields", "all")["rows"]
    for row in rows:
        others = {name: value for name, value in row.items() if name != "at"}
        assert file.stem in json.dumps(others)


def test_a_long_reason_is_said_once_for_the_rows_below_it() -> None:
    reason = "the whole function runs in eager mode: " + "torch cannot resume here. " * 4
    rows = [{"at": f"m.py:{at}", "why": reason} for at in range(3)] + [{"at": "m.py:9", "why": "x"}]
    text = answer_text("lines", Answer("", rows=rows), {}, RowSelection())
    whys = [row["why"] for row in json.loads(text)["rows"]]
    assert whys == [reason, AS_BEFORE, AS_BEFORE, "x"]
    second = answer_text("lines", Answer("", rows=rows), {}, RowSelection(skip=1))
    assert json.loads(second)["rows"][0]["why"] == reason


def test_questions_about_one_thing_are_answered_as_their_schemas_say(
    session: Path, ask: Ask, validator: jsonschema.Draft202012Validator
) -> None:
    graph = str(ask(session, "graphs")["rows"][0]["number"])
    node = ask(session, "nodes", graph)["rows"][-1]["name"]
    kernel = ask(session, "kernels")["rows"][0]["kernel"]
    line = first_source_line(session)
    for words in (
        ("nodes", graph),
        ("node", node),
        ("kernel", kernel),
        ("line", line),
        ("code", graph),
        ("code", line.rsplit(":", 1)[0]),
        ("find", node),
        ("diff", str(session)),
    ):
        answer = ask(session, *words, "--fields", "all")
        validator.validate(answer)
        assert answer["question"] == " ".join(words)
        assert answer["rows"] or words[0] == "diff", words


LOGS = sorted((DATA / "torch_trace").glob("*.log*"), key=lambda log: log.stat().st_size)


@pytest.mark.parametrize("log", with_others(LOGS[:3], LOGS[3:]), ids=lambda log: log.name)
def test_logs_are_answered_too(
    log: Path, ask: Ask, validator: jsonschema.Draft202012Validator
) -> None:
    for name in ("overview", "findings", "breaks", "recompiles", "guards", "kernels", "memory"):
        answer = ask(log, name)
        validator.validate(answer)
        assert answer["session"] == str(log)


def test_a_log_does_not_say_how_the_program_ended(ask: Ask) -> None:
    log = DATA / "torch_trace" / "h200_recompiles.log.gz"
    assert ask(log, "overview")["ended"].startswith("not recorded: a log does not say")


def log_of_a_failed_compile(text: str) -> str:
    """Return the part of a log up to the middle of its last compile."""
    lines = text.splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if '"dynamo_start"' in line)
    end = next(at for at, line in enumerate(lines[last:], last) if '"dynamo_output_graph"' in line)
    return "".join(lines[:end])


def test_a_log_that_ends_in_a_compile_says_so(ask: Ask, tmp_path: Path) -> None:
    packed = DATA / "torch_trace" / "h200_recompiles.log.gz"
    log = tmp_path / "cut.log"
    log.write_text(log_of_a_failed_compile(gzip.decompress(packed.read_bytes()).decode()))
    answer = ask(log, "failures")
    assert re.match(r"the log ends while \[\d/\d\] is being compiled", answer["ended"])
    assert answer["figures"]["end_of_log"] == answer["ended"]
    assert "finished" not in json.dumps(answer)
    (fact,) = ask(log, "overview", "--match", "log ends during a compile")["rows"]
    assert fact["severity"] == "problem"


def test_a_folder_with_one_log_is_that_log(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = DATA / "torch_trace" / "h200_recompiles.log.gz"
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / packed.name).write_bytes(packed.read_bytes())
    answer = ask(folder, "recompiles")
    assert answer["rows"] == ask(packed, "recompiles")["rows"]
    assert answer["rows"]
    (folder / "rank_1.log.gz").write_bytes(packed.read_bytes())
    assert main(["ask", str(folder)]) == 2
    assert "rank_1.log.gz" in " ".join(capsys.readouterr().err.split())


def test_all_versions_that_torch_named_are_listed_the_newest_first(ask: Ask) -> None:
    """The raw log has ``recompile_reasons``: what torch says of each version."""
    packed = DATA / "torch_trace" / "h200_recompiles.log.gz"
    rows = ask(packed, "recompiles", "--fields", "all")["rows"]
    text = gzip.decompress(packed.read_bytes()).decode()
    for row in rows:
        versions = [int(named.split(":")[0].split("/")[1]) for named in row["torch_named"]]
        assert versions == sorted(versions, reverse=True)
        for named in row["torch_named"]:
            guard = named.split(" (and in")[0].split(": ", 1)[1]
            assert guard.split("  ")[0] in text


def test_options_of_a_log_have_values_and_say_what_the_log_lacks(
    ask: Ask, validator: jsonschema.Draft202012Validator
) -> None:
    log = DATA / "torch_trace" / "h200_recompiles.log.gz"
    answer = ask(log, "options", "--match", "automatic_dynamic_shapes", "--fields", "all")
    validator.validate(answer)
    assert "does not say the defaults, who set an option" in answer["answer"]
    (row,) = [row for row in answer["rows"] if row["name"] == "dynamo.automatic_dynamic_shapes"]
    assert row["in_force"] == [{"value": True, "set_by": "not recorded"}]
    assert "default" not in row
    (row,) = ask(log, "options", "--match", "compiler.force_disable_caches")["rows"]
    assert row["value"] is True, "an option that we do not explain is listed too"


def test_guards_of_a_log_name_the_lines_that_torchs_remark_names(
    ask: Ask, validator: jsonschema.Draft202012Validator
) -> None:
    log = DATA / "torch_trace" / "h200_recompiles.log.gz"
    answer = ask(log, "guards", "--match", "0/2", "--fields", "all")
    validator.validate(answer)
    by_code = {row["code"]: row for row in answer["rows"]}
    product = by_code["128*L['x'].size()[0] <= 2147483647"]
    assert product["asked_for_by"] == "_inductor/codegen/simd.py:1877"
    assert product["remark"].endswith("in can_use_32bit_indexing)")
    assert by_code["0 <= L['n']"]["asked_for_by"] == "_inductor/fx_passes/joint_graph.py:962"
    both = by_code["2 <= L['x'].size()[0] <= 2147483647"]["asked_for_by"]
    user, torchs = both.split(" and ")
    assert user.endswith("trace_zoo.py:41")
    assert torchs == "_inductor/codegen/simd.py:1879"
    train = DATA / "torch_trace" / "h200_gpt_block_train.log.gz"
    heads = ask(train, "guards", "--match", ".h ==", "--fields", "all")["rows"]
    assert len(heads) == 4
    assert all(row["asked_for_by"].endswith("trace_zoo.py:13") for row in heads)


def test_kernels_of_a_log_say_how_long_they_took_to_compile(
    ask: Ask, session: Path, validator: jsonschema.Draft202012Validator
) -> None:
    log = DATA / "torch_trace" / "h200_llama_train.log.gz"
    answer = ask(log, "kernels", "--limit", "3", "--fields", "kernel,compile_seconds")
    validator.validate(answer)
    longest = answer["figures"]["longest_to_compile"]
    kernel = longest["kernel"]
    assert kernel.endswith("mul_neg_sin_slice_slice_backward_transpose_unsqueeze_10")
    assert longest["direction"] == "backward"
    assert longest["compile_seconds"] == pytest.approx(5.22659)
    (row,) = ask(log, "kernel", kernel)["rows"][:1]
    assert row["compile_seconds"] == pytest.approx(5.22659)
    for row in ask(session, "kernels")["rows"]:
        assert "compile_seconds" not in row


def test_caches_that_were_off_are_named_with_the_option(
    ask: Ask, session: Path, validator: jsonschema.Draft202012Validator
) -> None:
    """The raw log has ``fx_graph_cache_disabled``, ``"autotune_cache_state": "force_disabled"`` and
    ``force_disable_caches`` among the options.
    """
    log = DATA / "torch_trace" / "h200_llama_train.log.gz"
    answer = ask(log, "caches", "--fields", "all")
    validator.validate(answer)
    option = "torch.compiler.config.force_disable_caches"
    assert [(row["cache"], row["option"]) for row in answer["rows"]] == [
        ("fx_graph", option),
        ("aotautograd", option),
        ("autotune", option),
    ]
    assert f"{option} = True" in answer["answer"]
    captured = ask(session, "caches")
    assert [row["cache"] for row in captured["rows"]] == ["fx_graph", "aotautograd"]
    assert "--use-caches" in captured["answer"]


def test_a_bypassed_cache_and_that_of_autotuning_are_answered(ask: Ask) -> None:
    bypassed = ask(DATA / "tlparse" / "cache_hit_miss.log.gz", "caches")
    assert "1 hit" in bypassed["answer"]
    assert "3 bypassed" in bypassed["answer"]
    assert "the graph calls flex_attention" in bypassed["answer"]
    log = DATA / "tlparse_ranks" / "multi_rank_runtime" / "dedicated_log_torch_trace_rank_0.log.gz"
    wanted = set()
    for line in gzip.decompress(log.read_bytes()).decode().splitlines():
        if '"autotune_cache_state"' in line:
            for kernel, record in json.loads(line).items():
                wanted.add((kernel, record["autotune_cache_state"]))
    tuned = ask(log, "caches", "--match", "autotune")["rows"]
    assert wanted == {(kernel, row["outcome"]) for row in tuned for kernel in row["kernels"]}


def test_inputs_are_found_by_the_names_of_the_program(session: Path, ask: Ask) -> None:
    """Dynamo's source of a parameter is the program's own expression for it."""
    with SessionReader(session) as reader:
        node = next(
            row
            for row in reader.rows(model.Node, op="placeholder")
            if "_parameters_weight_" in row.name
        )
    (module,) = re.findall(r"_modules_(\w+?)_parameters_weight_$", node.name)
    path = ".".join(module.split("_modules_"))
    found = ask(session, "find", f"{path}.weight")["rows"]
    assert (f"{path}.weight", node.name) in {
        (row["text"], row["detail"].split(" ")[0]) for row in found if row["what"] == "input"
    }


def test_a_kernel_of_the_users_has_the_seconds_that_torch_recorded_by_its_function(
    ask: Ask,
) -> None:
    """The raw log has ``{"add_k": {…, "compile_time_us": 275246}}``; the code calls it add_k_0."""
    log = DATA / "torch_trace" / "h200_user_triton.log.gz"
    longest = ask(log, "kernels")["figures"]["longest_to_compile"]
    assert (longest["kernel"], longest["compile_seconds"]) == ("add_k_0", 0.275246)


def test_torchs_hints_stay_where_the_advice_is_ours(ask: Ask) -> None:
    log = DATA / "torch_trace" / "h200_ranks_ddp" / "rank_0.log.gz"
    rows = ask(log, "breaks", "--match", "contextlib.py")["rows"]
    assert rows
    for row in rows:
        assert row["hints"][0].startswith("No change is needed: ")
        assert any("@torch._dynamo.dont_skip_tracing" in hint for hint in row["torch_hints"])
    ordinary = ask(DATA / "torch_trace" / "h200_graph_breaks.log.gz", "breaks")["rows"]
    assert ordinary
    for row in ordinary:
        assert row["hints"] == row["torch_hints"]


def test_two_logs_differ_in_an_option(ask: Ask, tmp_path: Path) -> None:
    packed = DATA / "torch_trace" / "h200_recompiles.log.gz"
    text = gzip.decompress(packed.read_bytes()).decode()
    other = tmp_path / "other.log"
    other.write_text(text.replace(r"\"recompile_limit\": 8", r"\"recompile_limit\": 2"))
    assert ask(packed, "diff", str(other))["rows"] == [
        {"what": "option", "name": "dynamo.recompile_limit", "before": "8", "after": "2"}
    ]


def test_rows_are_those_of_the_json_report(session: Path, ask: Ask) -> None:
    with SessionReader(session) as reader:
        report: dict[str, Any] = json_report(reader)
    questions = {
        "breaks": "graph_breaks",
        "recompiles": "recompiles",
        "memory": "saved_tensors",
        "findings": "findings",
    }
    for question, name in questions.items():
        words = ("--limit", "1000", "--characters", "10000000", "--fields", "all")
        answer = ask(session, question, *words)
        assert answer["count"] == len(report[name])
        given = [without_empty(row) for row in answer["rows"]]
        for row in map(without_empty, report[name]):
            assert any({**each, **row} == each for each in given), (name, row)


def without_empty(value: Any) -> Any:
    """Return JSON without the fields that say nothing, which an answer leaves out."""
    if isinstance(value, dict):
        kept = {name: without_empty(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value


def test_a_line_leads_to_the_kernels_that_compute_it(session: Path, ask: Ask) -> None:
    kernels = ask(session, "kernels", "--limit", "1000", "--characters", "10000000")["rows"]
    with_lines = [kernel for kernel in kernels if kernel.get("lines")]
    for kernel in with_lines[:3]:
        answer = ask(session, "line", kernel["lines"][0], "--limit", "1000")
        names = [row["name"] for row in answer["rows"] if row["what"] == "kernel"]
        assert kernel["kernel"] in names


def test_an_answer_is_as_long_as_was_asked_for(session: Path, ask: Ask) -> None:
    for name in WITHOUT_ABOUT:
        for characters in (2_000, 12_000):
            words = ["--fields", "all", "--limit", "1000", "--characters", str(characters)]
            answer = ask(session, name, *words)
            length = len(json.dumps(answer, ensure_ascii=False))
            assert length <= characters, (name, length)
            if len(answer["rows"]) < answer.get("count", 0):
                assert any("--skip" in note for note in answer["left_out"]), name


def test_skip_continues_where_an_answer_was_cut(session: Path, ask: Ask) -> None:
    whole = ask(session, "kernels", "--limit", "1000", "--characters", "10000000")["rows"]
    rows: list[dict[str, Any]] = []
    while len(rows) < len(whole):
        page = ask(session, "kernels", "--skip", str(len(rows)), "--characters", "3000")
        assert page["rows"]
        rows += page["rows"]
    assert [row["kernel"] for row in rows] == [row["kernel"] for row in whole]


def test_rows_are_chosen_by_words_and_fields(session: Path, ask: Ask) -> None:
    name = ask(session, "kernels")["rows"][0]["kernel"]
    answer = ask(session, "kernels", "--match", name.upper(), "--fields", "kernel,calls")
    assert answer["count"] >= 1
    assert {*answer["rows"][0]} <= {"kernel", "calls"}
    assert all(name in row["kernel"] for row in answer["rows"])
    assert ask(session, "kernels", "--match", "nothing has this")["rows"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["kernls"], "did you mean kernels"),
        (["line"], "line needs a subject: line FILE:N"),
        (["line", "12"], "a line is given as FILE:NUMBER"),
        (["line", "none.py:1"], "no source file 'none.py'; it has: "),
        (["node", "nothing_like_it"], "no graph has a node 'nothing_like_it'"),
        (["kernel", "nothing_like_it"], "no kernel is called 'nothing_like_it'; there are: "),
        (["nodes", "nothing like it"], "no graph is called 'nothing like it'; there are: "),
        (["code", "nothing like it"], "no text is called 'nothing like it'; there are: "),
        (["breaks", "model.py"], "breaks takes no subject; --match TEXT"),
        (["kernels", "--fields", "nothing"], "no row has a field 'nothing'; there are: kernel"),
        (["diff", "none.fxs"], "there is no file 'none.fxs'"),
        (["find", " "], "find takes "),
    ],
)
def test_a_question_asked_wrongly_says_what_there_is(
    session: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["ask", str(session), *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_line_after_the_end_of_a_file_is_refused_with_its_length(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = first_source_line(session).rsplit(":", 1)[0]
    assert main(["ask", str(session), "line", f"{name}:999999"]) == 2
    assert "so there is no line 999999" in capsys.readouterr().err


def test_an_answer_too_short_to_be_one_is_refused(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["ask", str(session), "--characters", "10"])
    assert "at least 1,000" in capsys.readouterr().err


def test_what_changed_between_two_captures(captured: Captured, ask: Ask, tmp_path: Path) -> None:
    """A break that was added, and an operator, are named with their lines."""
    before, after = tmp_path / "net.py", tmp_path / "other" / "net.py"
    program = (
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        y = x.relu()\n"
        "        return y * 2\n"
        "def get_inputs():\n"
        "    return (torch.ones(4, 4),)\n"
    )
    before.write_text(program)
    after.parent.mkdir()
    after.write_text(
        program.replace("y = x.relu()\n", "y = x.relu()\n        print(y.sum().item())\n")
    )
    sessions = [
        captured(f"{file}:Net", inputs="torch.ones(4, 4)", train=False) for file in (before, after)
    ]
    answer = ask(sessions[0], "diff", str(sessions[1]))
    added = [row for row in answer["rows"] if row["what"] == "only after"]
    breaks = [row for row in added if row["name"] == "graph breaks"]
    assert {row["at"].rsplit("/", 1)[-1] for row in breaks} == {"net.py:5"}
    assert not [row for row in answer["rows"] if row["what"] == "only before"]
    lines = [row for row in answer["rows"] if row["what"] == "source line"]
    assert [(row["at"].rsplit("/", 1)[-1], row["after"]) for row in lines] == [
        ("net.py:5", "print(y.sum().item())")
    ]
    operators = {row["name"]: row for row in answer["rows"] if row["what"] == "operator"}
    assert operators["sum"]["after"] == "1"
    assert operators["sum"]["at"].endswith("net.py:5")


def test_a_call_that_was_refused_at_the_limit_is_no_recompile(
    fx_explorer: list[str], capture_environment: dict[str, str], ask: Ask, tmp_path: Path
) -> None:
    program, session = tmp_path / "limit.py", tmp_path / "limit.fxs"
    program.write_text(
        "import torch\n"
        "torch._dynamo.config.recompile_limit = 2\n"
        "@torch.compile(backend='eager', dynamic=False)\n"
        "def f(x, n):\n"
        "    return x.cos() * n\n"
        "for n in (4, 7, 10):\n"
        "    f(torch.ones(3), n)\n"
    )
    command = [*fx_explorer, "run", "-o", str(session), str(program)]
    subprocess.run(command, env=capture_environment, timeout=200, check=True)
    answer = ask(session, "recompiles", "--fields", "all")
    assert answer["answer"].startswith("1 recompile.")
    assert "limit was hit 1 time" in answer["answer"]
    refused = [row["compilation"] for row in answer["rows"] if row.get("is_refused")]
    assert refused == [answer["figures"]["limits"][0]["compilation"]]


def test_a_line_of_a_log_has_its_kernels_without_the_text_of_the_file(ask: Ask) -> None:
    log = DATA / "torch_trace" / "h200_gpt_block_train.log.gz"
    answer = ask(log, "line", "trace_zoo.py:15", "--limit", "100")
    kernels = [row["name"] for row in answer["rows"] if row["what"] == "kernel"]
    assert "triton_poi_fused_gelu_view_2" in kernels


def test_texts_of_one_name_are_told_apart_by_their_numbers(session: Path, ask: Ask) -> None:
    for row in ask(session, "code", "--limit", "400", "--characters", "1000000")["rows"]:
        if row["lines"]:
            answer = ask(session, "code", row["number"], "--limit", "1")
            assert answer["answer"].startswith(f"{row['document']}: ")


def test_pages_are_read_when_they_are_asked_for() -> None:
    read: list[tuple[int, int]] = []

    def page(start: int, stop: int) -> list[dict[str, Any]]:
        read.append((start, stop))
        return [{"number": number} for number in range(start, stop)]

    answer = Answer("Many.", Pages(100_000, page))
    text = answer_text("nodes", answer, {"session": "x"}, RowSelection(limit=3, skip=70_000))
    assert read == [(70_000, 70_003)]
    assert json.loads(text)["rows"] == [{"number": 70_000 + index} for index in range(3)]


def test_control_characters_are_written_as_escapes() -> None:
    answer = Answer("a\x1b[31m\x9b31m\x7f", [{"text": "\x85 é"}])
    text = answer_text("overview", answer, {}, RowSelection())
    assert not any(0x7F <= ord(character) < 0xA0 or character == "\x1b" for character in text)
    assert json.loads(text)["answer"] == "a\x1b[31m\x9b31m\x7f"
    assert "é" in text


def test_one_enormous_row_is_cut_and_says_so() -> None:
    answer = Answer("One.", [{"text": "x" * 100_000, "items": list(range(10_000))}])
    text = answer_text("overview", answer, {}, RowSelection())
    assert len(text) <= 12_000
    content = json.loads(text)
    assert "more characters" in content["rows"][0]["text"]
    assert any("texts are cut off in the output after" in note for note in content["left_out"])


def test_phases_have_exact_seconds_and_where_they_belong(session: Path, ask: Ask) -> None:
    rows = ask(session, "flame", "--limit", "1000", "--fields", "all", "--characters", "1000000")[
        "rows"
    ]
    whole = rows[0]
    assert whole["depth"] == 0
    inner = [row for row in rows if row["depth"] == 1]
    assert sum(row["seconds"] for row in inner) == pytest.approx(whole["seconds"], rel=0.01)
    backward = [row for row in rows if "backward" in row.get("within", "")]
    assert backward
    assert all(row["compilation"] for row in backward)


def test_a_node_has_its_bytes(session: Path, ask: Ask) -> None:
    with SessionReader(session) as reader:
        node = next(row for row in reader.rows(model.Node) if row.dtype == "f32" and row.shape)
    (row, *_) = ask(session, "node", node.name)["rows"]
    count = 4
    for size in node.shape or ():
        count *= int(size)
    assert row["bytes"] == count


def test_inputs_that_no_backward_needs_are_named(session: Path, ask: Ask) -> None:
    answer = ask(session, "memory")
    of_compilations = answer["figures"]["inputs_not_saved"].values()
    names = sorted(name.split(" ")[0] for named in of_compilations for name in named)
    expected = []
    with SessionReader(session) as reader:
        saved = {(row.compilation, row.name) for row in reader.rows(model.SavedTensor)}
        used = graphs_in_use(reader)
        for graph in reader.rows(model.Graph, stage="forward", direction="forward"):
            if used is None or graph.id in used:
                inputs = reader.rows(model.Node, graph=graph.id, op="placeholder")
                names_of = {(graph.compilation, node.name) for node in inputs}
                expected += [name for _, name in names_of - saved]
    assert names == sorted(expected)


@pytest.mark.parametrize("question", ["fusion", "passes", "side_effects", "flame"])
def test_what_inductor_decided_is_answered_as_its_schema_says(
    question: str, captured: Captured, ask: Ask, validator: jsonschema.Draft202012Validator
) -> None:
    answer = ask(captured("transformer"), question, "--fields", "all")
    validator.validate(answer)
    if question != "side_effects":
        assert answer["rows"]


def test_a_node_and_a_kernel_of_a_capture_are_as_their_schema_says(
    captured: Captured, ask: Ask, validator: jsonschema.Draft202012Validator
) -> None:
    session = captured("transformer")
    change = ask(session, "passes", "--fields", "all")["rows"][0]
    node = ask(session, "node", change["node"])
    validator.validate(node)
    assert any(row.get("passes") for row in node["rows"])
    pair = ask(session, "fusion")["rows"][0]
    kernel = ask(session, "kernel", pair["second"])
    validator.validate(kernel)
    assert kernel["rows"][0]["not_fused_with"]


@pytest.mark.parametrize("continues", [True, False])
def test_whether_the_program_continues_after_a_failed_compile_is_said(
    continues: bool, written: Written
) -> None:
    def write(writer: SessionWriter) -> None:
        option = ("dynamo.suppress_errors", json.dumps(continues), "program")
        writer.add(model.OptionInForce(0, *option))
        text = writer.text("KeyError: 'val'")
        writer.add(
            model.Failure(0, 0, "compiler", "post_grad", "KeyError", "KeyError: 'val'", text)
        )

    assert ("the program continues" in of_failures(written(write)).text) is continues


def test_a_folder_with_several_logs_names_them_and_what_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = gzip.decompress((DATA / "torch_trace" / "h200_graph_breaks.log.gz").read_bytes())
    for name in ("dedicated_log_torch_trace_a.log", "dedicated_log_torch_trace_b.log"):
        (tmp_path / name).write_bytes(log)
    assert main(["ask", str(tmp_path), "breaks"]) == 2
    refusal = capsys.readouterr().err
    assert "torch_trace_a.log and " in refusal
    assert "fx-explorer ranks" in refusal
    assert "two runs with: fx-explorer diff A B" in refusal


def test_the_bytes_saved_in_a_compilation_are_those_of_all_kinds(session: Path, ask: Ask) -> None:
    answer = ask(session, "memory", "--limit", "500")
    in_use = re.findall(r"Saved in (\S+):", answer["answer"])
    assert in_use
    with SessionReader(session) as reader:
        names = {row.id: row.name for row in reader.rows(model.Compilation)}
        saved = reader.rows(model.SavedTensor)
    for name in in_use:
        rows = [row for row in saved if names[row.compilation] == name]
        storages = {row.storage or row.name: row.size_bytes for row in rows}
        assert f"Saved in {name}: {sum(storages.values()):,} bytes" in answer["answer"]


def test_a_dtype_matches_by_its_name_in_torch(session: Path, ask: Ask) -> None:
    by_name = ask(session, "memory", "--match", "float32")
    assert by_name["count"] == ask(session, "memory", "--match", '"f32"')["count"] > 0


def test_passes_are_found_by_the_line_that_they_changed(captured: Captured, ask: Ask) -> None:
    session = captured("transformer")
    with SessionReader(session) as reader:
        changes = changes_of_report(reader)
    line = next(row["lines"][0] for row in changes if row["lines"])
    matching = ask(session, "passes", "--match", line, "--limit", "500")
    assert 0 < matching["count"] <= len(changes)
    named = [row for row in ask(session, "line", line)["rows"] if row["what"] == "pass"]
    assert named
    of_line = {row["pass"] for row in changes if line in row["lines"]}
    assert {row["text"] for row in named} <= of_line


def test_breaks_have_the_order_in_which_dynamo_met_them(session: Path, ask: Ask) -> None:
    rows = ask(session, "breaks")["rows"]
    met = [(row["file"], row["line"]) for row in sorted(rows, key=lambda row: row["order"])]
    with SessionReader(session) as reader:
        hits = [(hit.file, hit.line) for hit in reader.rows(model.GraphBreak)]
    assert met
    assert met == list(dict.fromkeys(hits))
