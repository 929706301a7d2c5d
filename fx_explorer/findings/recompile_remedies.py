"""What to do about recompiles, from the thing that varies, and from who calls the function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.findings.compile_edits import after_import_of_torch
from fx_explorer.findings.finding import Remedy
from fx_explorer.findings.frameworks import FrameworkCaller
from fx_explorer.findings.growing_containers import fill_outside, is_filled_inside
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.unrolled_loops import unrolled_loops
from fx_explorer.instruments.recompiles.avoided_recompiles import (
    BOTH_STAY,
    NO_MORE,
    NO_REMEDY,
    NOT_TRIED,
    look_up_outside,
)
from fx_explorer.instruments.recompiles.causes import SHARED, ExplainedRecompile
from fx_explorer.session import SessionReader

SIZES = ("size", "range", "relation")
"""Kinds of changes that are about sizes of tensors."""

_DYNAMIC = "Use torch.compile(…, dynamic=True)."

_MADE_DYNAMIC = {"settings": {"compile.dynamic": True}}


def group_remedies(
    reader: SessionReader, group: Sequence[ExplainedRecompile], caller: FrameworkCaller
) -> tuple[Remedy, ...]:
    """Return the ways to avoid the recompiles of a group. That torch made the value dynamic is no
    way where it was recompiled after that; and a tensor that a framework makes is nothing that
    the user can mark.
    """
    last = group[-1]
    is_size = last.change.kind in SIZES
    if last.remedy == SHARED:
        return ()
    if is_filled_inside(SourceLines(reader), group):
        return (fill_outside(last),)
    if CACHE in last.change.name:
        return (Remedy(_DYNAMIC, changes=_MADE_DYNAMIC), FIXED_CACHE) if is_size else (NO_CACHE,)
    if caller.framework:
        name = last.change.name
        offered = caller.framework.sizes if is_size else caller.framework.offered_for(name)
        by_framework = (Remedy(offered),) if offered else ()
        return (*by_framework, Remedy(_DYNAMIC, changes=_MADE_DYNAMIC)) if is_size else by_framework
    if not last.remedy or last.remedy == NO_REMEDY:
        return ()
    if alternates(group):
        return ()
    if not caller.is_users and last.change.where == "input" and not is_size:
        return ()  # a package gives the argument
    if last.change.kind == "relation" and DUCK_SIZING in last.reason:
        return (*_what_can_be_done(last.remedy), _without_duck_shape(reader))
    if steers(group):
        return (_outside(last),)
    if is_key(reader, last):
        return (Remedy(look_up_outside(last.change)),)
    is_number = last.change.kind == "number" and not last.is_another_object
    # Of a module's integers torch's own option makes dynamic ones; dynamic=True leaves them.
    if len(group) > 1 and is_number and "allow_unspec_int_on_nn_module" not in last.reason:
        kept = _LEARNING_RATE if _is_learning_rate(last) else _as_a_tensor(last)
        return (kept, Remedy(_DYNAMIC, changes=_MADE_DYNAMIC))
    return tuple(_what_can_be_done(last.remedy))


def steers(group: Sequence[ExplainedRecompile]) -> bool:
    """Return whether the code decides by a number: each version, compiled for its value, has other
    operations than the nearest one before.
    """
    for recompile in group:
        # Of a number that is dynamic, the graph has the arithmetic as well.
        is_dynamic = "torch made it dynamic" in recompile.remedy
        is_compiled_in = recompile.change.kind == "number" and not is_dynamic
        if not is_compiled_in or not _OTHER_OPERATIONS.match(recompile.graphs):
            return False
    return not group[0].is_another_object


_OTHER_OPERATIONS = re.compile(r"\d[\d,]* operations? (?:more|less)")
"""Matches how graphs with another number of operations differ (analysis/diff.py)."""


def is_key(reader: SessionReader, recompile: ExplainedRecompile) -> bool:
    """Return whether each object has its own float, which the line uses as a key: as a tensor it
    finds nothing there.
    """
    change = recompile.change
    if not recompile.is_another_object or change.kind != "number" or "." not in change.old:
        return False
    code = SourceLines(reader).code(recompile.file, recompile.line)
    return f"[{change.name}]" in code


def is_of_a_loop(reader: SessionReader, group: Sequence[ExplainedRecompile]) -> bool:
    """Return whether a number is that of the iterations of a loop that was unrolled for each of its
    values: the finding of the loop says so, and what to do.
    """
    values = {group[0].change.old, *(recompile.change.new for recompile in group)}
    iterations: dict[tuple[str, int], set[str]] = {}
    for loop in unrolled_loops(reader) if steers(group) else ():
        if loop.compilation.function == group[0].function:
            of_loop = iterations.setdefault((loop.file, loop.line), set())
            of_loop.add(str(loop.iterations))
            if values <= of_loop:
                return True
    return False


def why_it_steers(recompile: ExplainedRecompile) -> str:
    """Return why no option makes one graph for all values."""
    return (
        f"The code depends on the value of {recompile.change.name}, as in a branch or the length "
        "of a loop: each value that changes the operations needs another graph, also with "
        "dynamic=True."
    )


def _outside(recompile: ExplainedRecompile) -> Remedy:
    return Remedy(
        f"If it takes many values, keep the code that depends on {recompile.change.name} outside "
        "of the compiled function, and compile the functions it calls."
    )


def alternates(group: Sequence[ExplainedRecompile]) -> bool:
    """Return whether a program is compiled for both states of what has two: training and
    evaluation, with gradients and without. Most programs need both, and each is compiled once.
    """
    change = group[0].change
    is_parameters = change.kind == "requires_grad" and change.where == "attribute"
    return len(group) == 1 and change.kind in _OF_TWO_STATES and not is_parameters


_OF_TWO_STATES = ("training", "grad_mode", "requires_grad", "modes")

CACHE = "past_key_values"
"""What transformers calls the cache of keys and values, whose tensors it makes itself."""

FIXED_CACHE = Remedy(
    "Use a cache of a fixed size: past_key_values=StaticCache(config=model.config, "
    "max_cache_len=N) from transformers."
)

NO_CACHE = Remedy(
    "If nothing is generated, as in training, use no cache: model.config.use_cache = False, or "
    "use_cache=False in the call."
)

DUCK_SIZING = "duck sizing added this equality"
"""torch's words on sizes that it takes for one, since they were equal when it compiled
(torch/fx/experimental/symbolic_shapes.py).
"""


def _without_duck_shape(reader: SessionReader) -> Remedy:
    """Return the setting that keeps equal sizes apart. It is of no config that a capture sets, so
    a trial adds the line to the user's file.
    """
    setting = "torch.fx.experimental._config.use_duck_shape = False"
    lines = SourceLines(reader)
    changes = {}
    for file in reader.rows(model.SourceFile):
        code = f"import torch.fx.experimental._config; {setting}"
        edited = after_import_of_torch(lines.text(file.path), code) if file.is_user else None
        if edited:
            changes = {"overlay": {file.path: edited}}
            break
    return Remedy(
        f"Set {setting} before the first call (import torch.fx.experimental._config): sizes that "
        "happen to be equal then stay two separate sizes.",
        changes=changes,
    )


_AVOIDS = re.compile(r"\b(?:also )?avoids?\b")


def _what_can_be_done(text: str) -> Iterator[Remedy]:
    """Yield what the sentences on a recompile would have the user change; that nothing need be done
    is no remedy.
    """
    _, _, rest = text.rpartition(BOTH_STAY)
    rest = rest.replace(NO_MORE, "").replace(f" {NOT_TRIED}", "").strip()
    rest = rest.removeprefix("Otherwise ")
    if not rest:
        return
    is_about_dynamic = "dynamic=True" in rest and "dynamic=True) does not" not in rest
    changes = _MADE_DYNAMIC if is_about_dynamic else {}
    begins_with_code = rest.startswith(("torch.", "self."))
    sentence = rest if begins_with_code else f"{rest[0].upper()}{rest[1:]}"
    # In this program nothing was tried yet.
    yield Remedy(_AVOIDS.sub("may avoid", sentence), changes=changes, proven=sentence)
    if "allow_unspec_int_on_nn_module = True" in rest:
        name = "allow_unspec_int_on_nn_module"
        yield Remedy(
            f"Set torch._dynamo.config.{name} = True.",
            changes={"settings": {f"dynamo.{name}": True}},
        )


def _as_a_tensor(recompile: ExplainedRecompile) -> Remedy:
    name = recompile.change.name
    return Remedy(
        f"Keep {name} a tensor: do not call .item(), float() or int() before the code computes "
        "with it. A Python number there is specialized: compiled code is valid for one value.",
    )


_LEARNING_RATE = Remedy(
    "Give the optimizer its learning rate as a tensor, lr=torch.tensor(0.01), and change it in "
    "place (group['lr'].fill_(value)), as PyTorch's schedulers do. A Python number there is "
    "specialized: compiled code is valid for one value."
)


def _is_learning_rate(recompile: ExplainedRecompile) -> bool:
    change = recompile.change
    return "param_groups" in change.source and change.name.endswith("['lr']")
