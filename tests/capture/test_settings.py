"""These tests compare the catalogue of options with torch's own modules, and set options."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Mapping

import pytest
import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from fx_explorer.capture.option_catalogue import (
    add_catalogue,
    entries_of,
    in_force,
    list_settings,
    variable_of,
)
from fx_explorer.capture.option_settings import apply, check_at_gate
from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest, Setting
from fx_explorer.model.setting_values import fits
from fx_explorer.session import SessionReader, SessionWriter

CONFIGS = {
    "inductor": torch._inductor.config,
    "dynamo": torch._dynamo.config,
    "functorch": torch._functorch.config,
}

HAND_PICKED = {
    # name: (type, default, a piece of the comment), read off torch's sources with the eye
    "inductor.debug": ("bool", False, "add some debug printouts"),
    "inductor.max_fusion_size": ("int", 64, "how many nodes to allow into a single fusion"),
    "inductor.fx_graph_remote_cache": (
        "bool | None",
        None,
        "None: Not set -- Off for OSS, JustKnobs based for internal",
    ),
    "inductor.memory_pool": (
        "Literal['none', 'intermediates', 'outputs', 'combined']",
        "intermediates",
        "How to organize memory",
    ),
    "inductor.triton.cudagraphs": ("bool", False, "Use cudagraphs on output code"),
    "inductor.cpp.simdlen": ("int | None", None, ""),
    "inductor.cpp.threads": ("int", -1, "set to torch.get_num_threads()"),
    "inductor.auto_chunker.num_chunk": ("int | None", None, "use this to force number of chunks"),
    "inductor.cuda.cutlass_op_allowlist_regex": ("str | None", None, "regular expression"),
    "dynamo.recompile_limit": ("int", 8, "maximum number of cache entries"),
    "dynamo.specialize_int": ("bool", False, "whether or not to specialize on int inputs."),
    "functorch.activation_memory_budget": ("float", 1.0, "budget"),
    "functorch.memory_budget_pareto_dir": ("str | None", None, ""),
}


OBJECTS = ("Callable", "CustomPartitioner", "Policy", "set", "type[", "Op", "dict[typing.Any")


@pytest.fixture(scope="module")
def catalogue() -> Mapping[str, Setting]:
    return {setting.full_name: setting for setting in list_settings()}


@pytest.mark.parametrize("name", HAND_PICKED)
def test_an_option_is_as_torch_source_has_it(catalogue: Mapping[str, Setting], name: str) -> None:
    type_text, default, words = HAND_PICKED[name]
    setting = catalogue[name]
    assert (setting.type, json.loads(setting.default)) == (type_text, default)
    assert words in setting.help


def test_every_entry_of_the_three_modules_is_there_with_the_value_torch_reads(
    catalogue: Mapping[str, Setting],
) -> None:
    for group, module in CONFIGS.items():
        torch_says = module.get_config_copy()
        ours = {s.name: s for s in catalogue.values() if s.group == group}
        aliases = {name for name, entry in module._config.items() if entry.alias}
        assert set(ours) == (set(torch_says) | aliases) - {"TYPE_CHECKING"}
        plain = {name: s for name, s in ours.items() if s.type and name not in aliases}
        assert [
            name
            for name, s in plain.items()
            if s.value != json.dumps(torch_says[name], sort_keys=True)
        ] == []


def test_nearly_every_option_has_a_type_that_takes_its_value(
    catalogue: Mapping[str, Setting],
) -> None:
    known = [s for s in catalogue.values() if s.type and "Any" not in s.type.split(" | ")]
    assert len(known) >= 0.95 * len(catalogue)
    assert [s.full_name for s in known if not fits(s.type, json.loads(s.value))] == []


def test_only_options_that_hold_objects_have_no_type(catalogue: Mapping[str, Setting]) -> None:
    """torch's own annotation of each of them names a function, a class or a set."""
    for setting in catalogue.values():
        if not setting.type:
            declared = str(CONFIGS[setting.group].get_type(setting.name))
            assert any(word in declared for word in OBJECTS)


@pytest.mark.parametrize("group", CONFIGS)
def test_an_option_with_a_comment_above_it_in_the_source_has_help(
    catalogue: Mapping[str, Setting], group: str
) -> None:
    """Second source: a plain walk over the lines of the module, names at the left margin only."""
    lines = inspect.getsource(CONFIGS[group]).splitlines()
    commented = [
        line.split(":")[0].split("=")[0].strip()
        for above, line in itertools.pairwise(lines)
        if above.startswith("# ")
        and "ignore" not in above
        and re.match(r"[a-z]\w*(: [^=]*)? = ", line)
    ]
    assert len(commented) > 10
    assert [name for name in commented if not catalogue[f"{group}.{name}"].help] == []


def test_help_is_the_comment_without_what_is_meant_for_tools(
    catalogue: Mapping[str, Setting],
) -> None:
    assert (
        catalogue["dynamo.verbose"].help
        == "Verbose will print full stack traces on warnings and errors"
    )
    assert (
        catalogue["inductor.disable_progress"].help
        == "Whether to disable a progress bar for autotuning"
    )
    # The comment one paragraph higher belongs to nothing.
    assert not catalogue["dynamo.recompile_limit"].help.startswith("disable (for a function)")
    assert not any(
        "@compile_ignored" in s.help or "type: ignore" in s.help for s in catalogue.values()
    )


def test_another_name_of_an_option_says_so_and_has_its_value(
    catalogue: Mapping[str, Setting],
) -> None:
    setting = catalogue["dynamo.cache_size_limit"]
    assert (setting.type, setting.value, setting.default) == ("int", "8", "8")
    assert "Another name of torch._dynamo.config.recompile_limit." in setting.help


def test_reading_the_catalogue_leaves_torch_warning_to_the_user() -> None:
    in_force()
    entries = [
        entry
        for module in CONFIGS.values()
        for entry in module._config.values()
        if getattr(entry, "deprecated", False)
    ]
    if not entries:
        pytest.skip("this torch has no deprecated options")
    assert not any(entry._deprecation_warned for entry in entries)


def test_the_arguments_of_torch_compile_have_its_words(catalogue: Mapping[str, Setting]) -> None:
    backend, mode, dynamic = (
        catalogue[f"compile.{name}"] for name in ("backend", "mode", "dynamic")
    )
    assert {json.loads(choice) for choice in backend.choices} == {
        *torch._dynamo.list_backends(()),
        "regional_inductor",
    }
    assert "default backend" in backend.help
    assert [json.loads(choice) for choice in mode.choices] == [
        None,
        *torch._inductor.list_mode_options(),
    ]
    assert mode.help.startswith('Can be either "default"')
    assert "options (dict)" not in mode.help
    assert dynamic.choices == ("true", "false", "null")
    assert dynamic.help.startswith("Use dynamic shape tracing.")


def test_the_catalogue_is_written_once_with_what_was_in_force(tmp_path) -> None:  # type: ignore[no-untyped-def]
    request = CaptureRequest("a.py", "", backend="eager", options={"max-autotune": True})
    before = in_force(request)
    with (
        torch._inductor.config.patch(max_fusion_size=3),
        SessionWriter(tmp_path / "one.fxs") as writer,
    ):
        add_catalogue(writer, before)
        add_catalogue(writer)
    with SessionReader(tmp_path / "one.fxs") as reader:
        rows = {setting.full_name: setting for setting in reader.rows(Setting)}
        assert reader.count(Setting) == len(rows) > 500
        assert (rows["inductor.max_fusion_size"].value, rows["compile.backend"].value) == (
            "64",
            '"eager"',
        )
        assert (rows["compile.mode"].value, rows["inductor.max_autotune"].value) == ("null", "true")
        assert rows["compile.backend"].default == '"inductor"'


def test_settings_hold_until_they_are_put_back() -> None:
    """“Not set by the user” is put back too: torch's own ``patch`` leaves an option set to what it
    was.
    """
    before = _set_by_the_user()
    restore = apply(
        {
            "inductor.max_fusion_size": 8,
            "inductor.triton.cudagraphs": True,
            "inductor.cuda.cutlass_dynamic_cluster_shape": [1, 1, 1],
            "dynamo.cache_size_limit": 3,
            "functorch.activation_memory_budget": 0.5,
            "compile.mode": "max-autotune",
        }
    )
    assert torch._inductor.config.max_fusion_size == 8
    assert torch._inductor.config.triton.cudagraphs is True
    assert torch._inductor.config.cuda.cutlass_dynamic_cluster_shape == (1, 1, 1)
    assert torch._dynamo.config.recompile_limit == 3
    assert torch._functorch.config.activation_memory_budget == 0.5
    restore()
    restore()
    assert _set_by_the_user() == before


def _set_by_the_user() -> list[str]:
    return [
        f"{group}.{name}"
        for group, module in CONFIGS.items()
        for name, entry in module._config.items()
        if not entry.alias and not module._is_default(name)
    ]


def test_what_the_user_set_before_is_put_back() -> None:
    with torch._inductor.config.patch(max_fusion_size=5):
        apply({"inductor.max_fusion_size": 8})()
        assert torch._inductor.config.max_fusion_size == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"inductor.max_fusion_sise": 8},
            "there is no option inductor.max_fusion_sise; did you mean inductor.max_fusion_size",
        ),
        (
            {"max_fusion_size": 8},
            "there is no option max_fusion_size; did you mean inductor.max_fusion_size?",
        ),
        (
            {"nonsense": 8},
            "there is no option nonsense; write GROUP.NAME with one of the groups compile, compiler, dynamo, functorch",
        ),
        (
            {"inductor.max_fusion_size": "8"},
            'inductor.max_fusion_size takes a whole number, not the text "8"',
        ),
        (
            {"inductor.memory_pool": "output"},
            'or "combined", not the text "output"; did you mean "outputs"?',
        ),
        ({"compile.backend": "inducter"}, 'did you mean "inductor"'),
        (
            {"inductor.post_grad_custom_pre_pass": None},
            "takes a Python object and cannot be set from here",
        ),
        (
            {"inductor.debug": 1, "dynamo.verbose": 2},
            "inductor.debug takes True or False, not 1; dynamo.verbose takes",
        ),
    ],
)
def test_one_wrong_setting_changes_nothing(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply({"inductor.score_fusion_memory_threshold": 7, **settings})
    assert message in str(caught.value)
    assert torch._inductor.config.score_fusion_memory_threshold == 10


def test_an_option_that_the_environment_forces_is_not_said_to_be_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch._inductor.config._config["fx_graph_cache"], "env_value_force", True)
    with pytest.raises(
        UsageError, match=r"inductor\.fx_graph_cache cannot be changed: an environment variable"
    ):
        apply({"inductor.max_fusion_size": 8, "inductor.fx_graph_cache": False})
    assert torch._inductor.config.max_fusion_size == 64


def test_a_torch_without_sources_has_options_without_help() -> None:
    assert entries_of("math") == {}
    assert entries_of("no_such_module_at_all") == {}


def test_what_decides_whether_dynamo_is_entered_cannot_be_changed_at_a_gate() -> None:
    check_at_gate({"inductor.max_fusion_size": 8, "compile.mode": "lite"})
    with pytest.raises(UsageError, match=r"capture again with --setting compile\.fullgraph=true"):
        check_at_gate({"inductor.max_fusion_size": 8, "compile.fullgraph": True})


def test_an_environment_variable_is_named_for_the_entry_it_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert variable_of("dynamo", "capture_scalar_outputs") == ""
    monkeypatch.setenv("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS", "1")
    assert variable_of("dynamo", "capture_scalar_outputs") == "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS"
