"""Guards by kind, in plain words: what must stay as it was for the compiled code to be used
again.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import guard_kind_counts

KIND_IN_WORDS: dict[str, str] = {
    "TENSOR_MATCH": "a tensor keeps its dtype, device, layout and every size that is not dynamic",
    "SHAPE_ENV": "dynamic sizes stay in the range they were compiled for",
    "DUPLICATE_INPUT": "two inputs stay the same tensor",
    "ID_MATCH": "a name still stands for the same object",
    "FUNCTION_MATCH": "a name still stands for the same function",
    "CLOSURE_MATCH": "a name still stands for the same closure",
    "BUILTIN_MATCH": "a name still stands for the same builtin",
    "MODULE_MATCH": "a module is still the same one",
    "NN_MODULE": "a module is still the same one, in the same training mode",
    "CLASS_MATCH": "a name still stands for the same class",
    "TYPE_MATCH": "an object keeps its type",
    "CONSTANT_MATCH": "a Python value that was compiled in stays equal",
    "EQUALS_MATCH": "a Python value that was compiled in stays equal",
    "BOOL_MATCH": "a flag that was compiled in stays the same",
    "NONE_MATCH": "what was None stays None",
    "SEQUENCE_LENGTH": "a list, tuple or dict keeps its length",
    "TUPLE_ITERATOR_LEN": "an iterator keeps its length",
    "RANGE_ITERATOR_MATCH": "a range iterator stays where it was",
    "DICT_KEYS_MATCH": "a dict keeps its keys",
    "DICT_CONTAINS": "a dict keeps (or keeps lacking) a key",
    "DICT_VERSION": "a dict is not changed",
    "DICT_NOT_CONTAINS": "a dict keeps lacking a key",
    "MAPPING_KEYS_CHECK": "a mapping keeps its keys",
    "HASATTR": "an object keeps (or keeps lacking) an attribute",
    "NOT_PRESENT_IN_GENERIC_DICT": "an object keeps lacking an attribute of its own",
    "EMPTY_NN_MODULE_HOOKS_DICT": "a module still has no hooks",
    "WEAKREF_ALIVE": "an object is still alive",
    "GRAD_MODE": "grad mode (torch.no_grad) stays as it was",
    "DETERMINISTIC_ALGORITHMS": "torch.use_deterministic_algorithms stays as it was",
    "TORCH_FUNCTION_STATE": "__torch_function__ modes stay as they were",
    "DEFAULT_DEVICE": "torch.set_default_device stays as it was",
    "GLOBAL_STATE": "torch's global settings stay as they were",
    "FSDP_TRAINING_STATE": "FSDP's training state stays as it was",
    "AUTOGRAD_SAVED_TENSORS_HOOKS": "saved-tensor hooks stay as they were",
}
"""torch's guard types (``torch/_dynamo/guards.py``, methods of GuardBuilder) → what they ask
for.
"""


@dataclass(frozen=True, slots=True)
class GuardKind:
    kind: str
    in_words: str
    """A description; empty for an unknown kind."""
    count: int


def guard_kinds(reader: SessionReader, compilation: int | None = None) -> list[GuardKind]:
    """Return how many guards there are of each kind, most frequent first, in one compilation or in
    all.
    """
    counts = guard_kind_counts(reader, compilation)
    return [GuardKind(kind, KIND_IN_WORDS.get(kind, ""), count) for kind, count in counts.items()]


def guards_of(
    reader: SessionReader, compilation: int, start: int = 0, stop: int | None = None
) -> list[model.Guard]:
    """Return one page of a compilation's guards, in the order torch checks them."""
    limit = -1 if stop is None else stop - start
    return reader.rows(model.Guard, offset=start, limit=limit, compilation=compilation)
