"""These tests check what the overview says of a session for a virtual GPU."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionWriter
from fx_explorer.tui.screens.header import conditions
from tests.sessions import Written

TITLE = "NVIDIA H100 SXM 80 GB"


def virtual(writer: SessionWriter, **told: object) -> None:
    writer.set_meta("environment", {"torch": "2.13.0", "device": "cuda", "virtual_gpu": TITLE})
    writer.set_meta(
        "virtual_gpu",
        {"gpu": "h100", "feeding": "transplant", "reason": "", "questions": [], **told},
    )
    writer.set_meta("build", False)
    writer.set_meta("outcome", model.Outcome("finished").to_json())


def question(line: int) -> dict[str, object]:
    return {"what": ".is_cuda", "file": "/home/me/model.py", "line": line}


def test_it_says_that_nothing_ran_on_the_gpu_and_how_the_program_was_fed(written: Written) -> None:
    fact = next(fact for fact in overview(written(virtual)) if "virtual" in fact.text)
    assert fact.text == f"The code is for a virtual {TITLE}: nothing ran on it."
    assert fact.detail == "The program ran on the CPU, and its graphs were moved to the GPU."


def test_why_tensors_have_no_content_is_said(written: Written) -> None:
    reader = written(
        lambda writer: virtual(writer, feeding="fake", reason="the program says so (model.py:3)")
    )
    details = [fact.detail for fact in overview(reader)]
    assert (
        "Tensors on the GPU had shapes but no content: the program says so (model.py:3)." in details
    )


def test_it_offers_no_build(written: Written) -> None:
    facts = overview(written(virtual))
    assert not any("--build" in fact.text + fact.detail for fact in facts)


def test_another_triton_is_a_notice(written: Written) -> None:
    facts = overview(written(lambda writer: virtual(writer, warning="triton 3.5 is here")))
    assert [fact.severity for fact in facts if fact.text == "Triton 3.5 is here."] == ["notice"]


def test_questions_about_the_device_are_notices_with_their_line(written: Written) -> None:
    facts = overview(written(lambda writer: virtual(writer, questions=[question(12)])))
    told = [fact for fact in facts if "model.py:12 checks .is_cuda" in fact.text]
    assert [fact.severity for fact in told] == ["notice"]


def test_many_questions_are_counted(written: Written) -> None:
    facts = overview(
        written(lambda writer: virtual(writer, questions=[question(line) for line in range(1, 9)]))
    )
    assert len([fact for fact in facts if "checks .is_cuda" in fact.text]) == 5
    assert any(
        fact.text == "The program has 3 more such questions about the device." for fact in facts
    )


def test_what_autotuning_would_have_timed_is_counted(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        virtual(writer)
        candidates = [{"name": "triton_mm_0", "library": False}, {"name": "mm", "library": True}]
        writer.set_meta(
            "virtual_gpu_choices", [{"shown": "triton_mm_0", "candidates": candidates}] * 2
        )

    facts = overview(written(write))
    said = (
        "Autotuning would time 4 candidates on the GPU, for 2 operations; the first Triton "
        "candidate of each is shown."
    )
    assert said in [fact.text for fact in facts]


def test_the_header_names_the_gpu(written: Written) -> None:
    assert f"virtual {TITLE}" in conditions(written(virtual))
