"""These tests check a program on a virtual GPU: what runs, what has no content, which device it
sees.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.capture.virtual_gpu.device_queries import conditions
from fx_explorer.capture.virtual_gpu.not_possible import insists_on_gpu, needs_fake
from fx_explorer.overview.overview import overview
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton, told
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.worker.capturing import Ended

Opened = Callable[[Ended], SessionReader]

ROOT = Path(__file__).parents[3]

TOO_LARGE = 200_000
"""A square weight of that many rows: 160 GB."""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(text)
        return path

    return write


# tensors without content


@needs_triton
def test_programs_that_say_cuda_or_have_kernels_of_their_own_are_compiled(
    for_gpu: ForGpu, opened: Opened
) -> None:
    ended = for_gpu(HERE / "on_cuda.py", "h100", as_script=True)
    assert told(ended, "failed") == []
    assert told(ended, "compiled") == [
        "own_kernel",
        "own_operator",
        "flex_backward",
        "moved_to_cuda",
        "made_on_cuda",
    ]
    assert ended.meta["virtual_gpu"]["feeding"] == "fake"
    kernels = opened(ended).rows(model.Kernel)
    assert {kernel.language for kernel in kernels} == {"triton", "extern"}
    assert {"add_kernel_0", "triton_tem_fused_flex_attention_backward_0"} & {
        kernel.name for kernel in kernels
    }


@in_exhaustive_runs
@needs_triton
def test_moving_a_tensor_to_cuda_makes_the_emulation_fake_and_a_size_by_its_values_ends_the_program(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened
) -> None:
    program = file(
        "import torch\n"
        "linear = torch.nn.Linear(4, 4).cuda()\n"
        "loss = torch.compile(linear)(torch.randn(2, 4).to('cuda')).sum()\n"
        "loss.backward()\n"
        "print('the weight has a gradient on', linear.weight.grad.device)\n"
        "print(f'loss {loss.item():.2f}')\n"
        "print(linear.weight[linear.weight > 0].tolist())\n"
    )
    ended = for_gpu(program, "h100", as_script=True)
    assert (
        ended.meta["virtual_gpu"]["reason"]
        == f"the program itself puts tensors on cuda ({program}:2)"
    )
    assert any(
        "no content: the program itself puts tensors on cuda" in notice.text
        for notice in ended.notices
    )
    assert ended.printed() == ["the weight has a gradient on cuda:0", "loss 1.00"]
    assert ended.outcome.kind == "raised"
    asked = (
        f"the program reads the content of a tensor on the virtual GPU at {program}:7 "
        "`print(linear.weight["
    )
    assert ended.outcome.message.startswith(asked)
    assert {row.direction for row in opened(ended).rows(model.Kernel)} == {"forward", "backward"}


@in_exhaustive_runs
@needs_triton
def test_numbers_read_off_tensors_without_content_go_through_what_scripts_do_with_numbers(
    for_gpu: ForGpu, opened: Opened
) -> None:
    program = Path(__file__).with_name("training_habits.py")
    ended = for_gpu(program, "h100", as_script=True)
    printed = ended.printed()
    assert not [line for line in printed if line.startswith("FAILED")]
    assert printed[-1].endswith("habits went through")
    assert ended.outcome.kind == "finished", ended.outcome.message
    lines = program.read_text().splitlines()
    emulated = ended.meta["virtual_gpu"]
    assert {place["file"] for place in emulated["placeholders"]} == {str(program)}
    assert {place["value"] for place in emulated["placeholders"]} == {"1.0", "1", "False", "True"}
    for place in emulated["unsaved"]:
        assert "torch.save(state, path)" in lines[place["line"] - 1]
    facts = [fact.text for fact in overview(opened(ended))]
    assert any("from tensors without content: they are placeholders" in fact for fact in facts)
    assert any("saves tensors without content: nothing was written" in fact for fact in facts)


TRAINING = """import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
began, ended, side = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), torch.cuda.Stream()
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(288, 4)).cuda().to(memory_format=torch.channels_last)
compiled = nn.DataParallel(torch.compile(model))
scaler, optimizer = torch.amp.GradScaler("cuda"), torch.optim.SGD(model.parameters())
began.record()
for pictures, labels in DataLoader(TensorDataset(torch.randn(8, 3, 8, 8), torch.arange(8) % 4), 4, pin_memory=True):
    with torch.cuda.stream(side):
        pictures, labels = pictures.to("cuda", non_blocking=True), labels.cuda(non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    pictures.record_stream(torch.cuda.current_stream())
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(compiled(pictures), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
ended.record()
torch.cuda.synchronize()
print("took", began.elapsed_time(ended), torch.cuda.max_memory_reserved())
"""


@needs_triton
def test_a_training_script_with_streams_events_pinned_data_and_a_scaler_comes_to_its_end(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened
) -> None:
    program = file(TRAINING)
    ended = for_gpu(program, "h100", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome
    assert ended.printed()[-1] == "took nan 0"
    assert ended.meta["virtual_gpu"]["reason"] == f"the program uses CUDA events ({program}:4)"
    assert {row.direction for row in opened(ended).rows(model.Kernel)} == {"forward", "backward"}


@needs_triton
def test_a_model_that_does_not_fit_is_compiled_without_weights(
    for_gpu: ForGpu, file: Callable[[str], Path]
) -> None:
    program = file(
        "import torch\n"
        "def fx_explorer_target():\n"
        f"    model = torch.nn.Sequential(torch.nn.Linear({TOO_LARGE}, {TOO_LARGE}), torch.nn.ReLU())\n"
        f"    return model, (torch.randn(8, {TOO_LARGE}),)\n"
    )
    ended = for_gpu(program, "b200", no_weights=True)
    assert ended.outcome.kind == "finished", ended.outcome
    assert ended.meta["target"]["parameters"] == TOO_LARGE * (TOO_LARGE + 1)
    assert ended.meta["virtual_gpu"]["reason"] == "without weights (--no-weights)"


@pytest.mark.parametrize(
    ("text", "train", "reason"),
    [
        (
            "import triton\n@triton.jit\ndef kernel(x): pass\n",
            None,
            "its own Triton kernels (program.py:3)",
        ),
        (
            "from triton import jit\n@jit\ndef kernel(x): pass\n",
            None,
            "its own Triton kernels (program.py:3)",
        ),
        (
            "def f(q): return flex_attention(q, q, q)\n",
            None,
            "flex attention has no backward on the CPU (program.py:1)",
        ),
        ("def f(q): return flex_attention(q, q, q)\n", False, ""),
        (
            "import torch\nf = torch.compile(flex_attention)\n",
            None,
            "flex attention has no backward on the CPU (program.py:2)",
        ),
        (
            "m = make(attn_implementation='flex_attention')\n",
            None,
            "flex attention has no backward on the CPU (program.py:1)",
        ),
        ("from torch.nn.attention import flex_attention\n", None, ""),
        ("import torch\n@torch.jit.script\ndef f(x): return x\n", None, ""),
        ("def f(:\n", None, ""),
    ],
)
def test_what_needs_the_gpu_from_the_beginning_is_read_from_the_file(
    file: Callable[[str], Path], text: str, train: bool | None, reason: str
) -> None:
    found = needs_fake(file(text), train)
    assert reason in found
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import torch\nassert torch.cuda.is_available(), 'no GPU'\n", 2),
        ("if not torch.cuda.is_available():\n    raise SystemExit('no GPU')\n", 1),
        ("if not torch.cuda.is_available():\n    sys.exit(1)\n", 1),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\n", 0),
    ],
)
def test_a_program_that_stops_without_a_gpu_is_known_by_its_text(
    file: Callable[[str], Path], text: str, line: int
) -> None:
    assert insists_on_gpu(file(text)) == (
        f"the program stops without a GPU (program.py:{line})" if line else ""
    )


VARYING = """import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).to("DEVICE")
torch.compile(net, dynamic=True)(torch.randn(5, 3, 32, 32, device="DEVICE"))
"""


@in_exhaustive_runs
@needs_triton
@pytest.mark.parametrize(
    ("device", "feeding"), with_others([("cuda", "fake")], [("cpu", "transplant")])
)
def test_a_batch_that_varies_is_not_limited_by_the_convolutions_of_the_cpu(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened, device: str, feeding: str
) -> None:
    ended = for_gpu(file(VARYING.replace("DEVICE", device)), "h100", as_script=True)
    assert ended.meta["virtual_gpu"]["feeding"] == feeding
    batches = [
        symbol for symbol in opened(ended).rows(model.Symbol) if symbol.source.endswith("size()[0]")
    ]
    assert batches[-1].final_range.startswith("[2, ")
    assert not batches[-1].final_range.endswith(" 15]"), "oneDNN and NNPACK are for 16 and more"


# questions


ASKING = """import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
class Model(torch.nn.Module):
    def forward(self, x):
        if x.is_cuda:
            return x.half()
        y = torch.zeros(3, device=x.device)
        return x.sin() + (y if x.device == y.device else 0)
model = Model().to(device)
example_inputs = (torch.randn(3, device=device),)
"""


@needs_triton
def test_what_the_program_asks_about_the_device_is_told(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened
) -> None:
    program = file(ASKING)
    ended = for_gpu(program, "h100")
    asked = [
        (one["what"], one["file"], one["line"]) for one in ended.meta["virtual_gpu"]["questions"]
    ]
    assert asked == [("torch.cuda.is_available()", str(program), 2), (".is_cuda", str(program), 5)]
    facts = overview(opened(ended))
    told = "program.py:2 checks torch.cuda.is_available(): on the GPU it may take another branch than the captured one."
    assert told in [fact.text for fact in facts]
    assert (facts[-1].text, facts[-1].place) == (
        f"Look first at: {told}",
        place_of_path(opened(ended), str(program), 2),
    )
    assert "c w captures again" in facts[-1].detail
    assert json_report(opened(ended))["environment"]["virtual_gpu"]["advice"] == "--no-weights"


KEEPING_THE_DEVICE = """
import torch
def model(x):
    device = x.device
    y = x.float() if device.type in ("cpu", "mps") else x.int()
    return torch.histc(y, bins=4, min=0, max=3)
example_inputs = (torch.ones(8),)
"""


@needs_triton
def test_a_device_that_is_kept_in_a_variable_is_asked_about_where_it_decides(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened
) -> None:
    """As transformers does in its mixtures of experts, in a library: by Dynamo, not by the file."""
    library = file(KEEPING_THE_DEVICE)
    asked = for_gpu(library, "h100").meta["virtual_gpu"]["questions"]
    assert asked == [{"what": "device.type", "file": str(library), "line": 5}]
    there = opened(for_gpu(library, "h100", no_weights=True))
    assert {node.dtype for node in there.rows(model.Node, target="aten.histc.default")} == {"i32"}


MAKING_CONSTANTS = """
import torch
def model(x):
    base = torch.tensor(2.5, device=x.device)
    return base ** torch.arange(1, 9, device=x.device) * x
example_inputs = (torch.ones(8),)
"""


@needs_triton
def test_a_constant_that_is_copied_to_the_gpu_is_told_with_its_line(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened
) -> None:
    session = opened(for_gpu(file(MAKING_CONSTANTS), "h100"))
    assert any("to_copy" in kernel.name for kernel in session.rows(model.Kernel))
    (told,) = [
        fact for fact in overview(session) if "Python numbers" in fact.text and fact.topic != "next"
    ]
    assert told.text.startswith("program.py:4 makes a tensor of Python numbers")
    assert "_to_copy instead of lift_fresh" in told.detail


@in_exhaustive_runs
@needs_triton
def test_the_report_tells_gpu_emulation_mode_and_questions(
    for_gpu: ForGpu, file: Callable[[str], Path], opened: Opened
) -> None:
    ended = for_gpu(
        file("import torch\nmodel, example_inputs = torch.nn.ReLU(), (torch.ones(3),)\n"), "h200"
    )
    report = json_report(opened(ended))
    jsonschema.validate(
        report, json.loads((ROOT / "docs" / "reference" / "report-schema.json").read_text())
    )
    environment = report["environment"]
    assert (environment["gpu"], environment["device"], environment["gpu_present"]) == (
        "NVIDIA H200 SXM 141 GB",
        "cuda",
        None,
    )
    assert environment["virtual_gpu"] == {
        "feeding": "transplant",
        "reason": "",
        "questions": [],
        "placeholders": [],
        "unsaved": [],
    }
    assert [kernel["language"] for kernel in report["compilations"][0]["kernels"]] == ["triton"]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("y = 1 if x.is_cuda else 2", [".is_cuda"]),
        ("while model.weight.device.type == 'cuda': pass", [".device.type"]),
        ("if str(x.device).startswith('cuda'): pass", [".device"]),
        ("if x.device == torch.device('cpu'): pass", [".device"]),
        ("fast = a and torch.cuda.is_available()", ["torch.cuda.is_available()"]),
        ("y = 1 if device.type in ('cpu', 'mps') else 2", ["device.type"]),
        ("if self.target_device.type == 'cuda': pass", ["device.type"]),
        ("if device.type == 'tpu': pass", []),
        ("same = x.device == y.device", []),
        ("y = torch.zeros(3, device=x.device)", []),
        ("print(x.is_cuda)", []),
    ],
)
def test_only_conditions_on_the_kind_of_device_are_questions(
    file: Callable[[str], Path], text: str, asked: list[str]
) -> None:
    assert [question.what for question in conditions(str(file(text)))] == asked
