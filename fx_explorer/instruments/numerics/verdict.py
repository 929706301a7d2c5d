"""This module says in sentences whether compiled code computes what eager mode does: the answer
first, then the operator, the reason, and what was tried.
"""

from __future__ import annotations

from fx_explorer.model import Numerics, NumericsBirth, NumericsFinding, NumericsRun
from fx_explorer.model.numerics import BY_TF32
from fx_explorer.session.file_names import in_file

STAGES = {
    "dynamo": "Dynamo's graph",
    "aot": "AOTAutograd's graphs",
    "decomposition": "the decompositions of operators",
    "pre_grad": "a pass before AOTAutograd (pre-grad)",
    "joint": "a pass on the joint graph",
    "post_grad": "a post-grad pass",
    "code": "Inductor's generated code",
    "random": "other random numbers",
}

CASTS = "emulate_precision_casts"
"""The option of Inductor's with which generated code rounds to 16 bits wherever eager mode does."""

STATES = {
    "failed": "fails",
    "out_of_memory": "runs out of memory",
    "timed_out": "takes too long",
    "not_measured": "was not run",
}


def is_wrong(numerics: Numerics) -> bool:
    """Return whether the compiled program computes something else, or does not run through."""
    program = numerics.program
    return program is not None and (program.differs or program.state != "measured")


def verdict(numerics: Numerics) -> list[str]:
    """Return the answer as sentences, the most important first."""
    program = numerics.program
    if program is None:
        return [numerics.problem or "Nothing was compared."]
    sentences = [_answer(numerics, program)]
    if numerics.problem and numerics.problem not in sentences:
        sentences.append(numerics.problem)
    finding = numerics.finding
    if finding is not None:
        sentences += _about_finding(numerics, finding)
    sentences += _remedies(numerics)
    if numerics.smallest:
        sentences.append(numerics.smallest)
    return [*sentences, *numerics.left_out]


def _answer(numerics: Numerics, program: NumericsRun) -> str:
    name = program.name
    if program.state != "measured":
        return f"{name} {STATES[program.state]}: {program.message}"
    if numerics.problem and not numerics.graphs:
        return numerics.problem
    if program.agreement == "not_compared":
        return f"Not known: {program.words}"
    if program.differs:
        return f"{name} differs from eager mode: {_difference(program)}."
    if program.agreement == "equal":
        with_numbers = f" ({program.words})" if program.words else ""
        return f"No difference: {name} gives the same result as eager mode{with_numbers}."
    if BY_TF32 in program.words:
        return f"No fault: {name} and eager mode round to TF32 differently; {program.words}."
    if program.error < program.eager_error:
        return (
            f"No fault: {name} is more exact than eager mode ({program.where}: error "
            f"{program.error:.2g}, eager {program.eager_error:.2g}, against float64)."
        )
    return (
        f"No difference beyond rounding: by PyTorch's rule, {name} is as close to float64 as "
        f"eager mode ({program.where}: error {program.error:.2g}, eager "
        f"{program.eager_error:.2g})."
    )


def _difference(program: NumericsRun) -> str:
    place = f" {program.place}" if program.place else ""
    parts = [f"{program.where}{place} by {program.largest:.3g}"]
    if program.error or program.eager_error:
        parts.append(f"error {program.error:.2g} against float64, eager {program.eager_error:.2g}")
    if program.words:
        parts.append(program.words)
    if not program.is_repeatable:
        parts.append("a different result at each call of the same code")
    return "; ".join(parts)


def _about_finding(numerics: Numerics, finding: NumericsFinding) -> list[str]:
    sentences = []
    if finding.stage == "random":
        sentences.append(_random_operator(numerics, finding))
    elif finding.stage and is_wrong(numerics):
        sentences.append(_first_operator(finding))
    sentences += finding.reasons
    sentences += [_birth(birth) for birth in finding.births]
    if finding.method and finding.node:
        sentences.append(finding.method)
    return sentences


def _random_operator(numerics: Numerics, finding: NumericsFinding) -> str:
    program = numerics.program
    sentence = f"{_operator(finding)} draws random numbers, and Inductor uses another generator"
    if program is not None and program.is_alike:
        return (
            f"{sentence}: with torch._inductor.config.fallback_random they equal eager mode's "
            "(tried)."
        )
    return f"{sentence}; in eval mode the program can be compared."


def _first_operator(finding: NumericsFinding) -> str:
    stage = STAGES[finding.stage]
    if not finding.node:
        return f"The difference comes from {stage}; no single operator was found."
    sentence = f"The first operator that differs is {_operator(finding)}, in {stage}"
    if finding.graph:
        sentence += f" of graph {finding.graph}"
    if finding.kernel:
        sentence += f", kernel {finding.kernel}"
        if finding.kernel_line:
            sentence += f" line {finding.kernel_line}: {finding.kernel_code}"
    return f"{sentence}."


def _operator(finding: NumericsFinding) -> str:
    where = f" at {in_file(finding.file, finding.line)}" if finding.file else ""
    code = f" ({finding.code})" if finding.code else ""
    return f"{finding.node} ({finding.operation}){where}{code}"


def _birth(birth: NumericsBirth) -> str:
    where = f" at {in_file(birth.file, birth.line)}" if birth.file else ""
    made_of = "values that are not NaN" if birth.what == "NaN" else "finite values"
    run = "eager mode" if birth.run == "eager" else "compiled code"
    return (
        f"In {run} the first {birth.what} comes from {birth.name} ({birth.operation}), made of "
        f"{made_of}{where}."
    )


def _remedies(numerics: Numerics) -> list[str]:
    remedies = [run for run in numerics.runs if run.role == "remedy"]
    sentences = [f"Tried: {run.name}: {_result(run)}." for run in remedies]
    return [*sentences, *numerics.remedies]


def _result(run: NumericsRun) -> str:
    if run.state != "measured":
        return f"it {STATES[run.state]}: {run.message}"
    if run.is_alike and run.name.endswith(CASTS):
        return "results equal eager mode's, so fusion left out a cast"
    if run.is_alike:
        return "results equal eager mode's"
    if run.agreement == "not_compared":
        return f"not compared ({run.words})"
    return "results still differ"
