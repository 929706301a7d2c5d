"""These tests check the meaning of the words TARGET, read without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.place import TargetPlace, locate

CLASS_WITH_INPUTS = "class Net(torch.nn.Module): pass\nexample_inputs = 1\n"


def place_of(target: Path | str, **request: object) -> TargetPlace:
    return locate(CaptureRequest(str(target), "", **request))


def written(folder: Path, text: str, name: str = "model.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    "text",
    [
        "def fx_explorer_target(): ...",
        "from models import fx_explorer_target",
        "model = 1\nexample_inputs = 2",
        "def get_model(): ...\nexample_inputs: object = 2",
        "if True:\n    model, example_inputs = 1, 2",
        "try:\n    from a import model\nexcept ImportError:\n    model = 1\nexample_inputs = 2",
        CLASS_WITH_INPUTS,
    ],
)
def test_a_file_that_says_what_to_compile_is_no_script(tmp_path: Path, text: str) -> None:
    assert not place_of(written(tmp_path, text)).is_script


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model = 1",
        "example_inputs = 1",
        "class Net: pass",
        "if __name__ == '__main__':\n    model = example_inputs = 1",
        "def f():\n    model = example_inputs = 1",
        "not python(",
    ],
)
def test_a_file_that_does_not_say_is_a_script(tmp_path: Path, text: str) -> None:
    assert place_of(written(tmp_path, text)).is_script


def test_options_that_say_what_to_compile_make_it_no_script(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    assert not place_of(file, inputs="1").is_script
    assert not place_of(file, call="f").is_script
    assert not place_of(f"{file}:f").is_script
    assert place_of(written(tmp_path, CLASS_WITH_INPUTS), as_script=True).is_script


def test_an_object_is_split_off_unless_the_colon_is_part_of_the_name(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    assert (place_of(f"{file}:Net.inner").file, place_of(f"{file}:Net.inner").object) == (
        file,
        "Net.inner",
    )
    odd = written(tmp_path, "", "a:b.py")
    assert (place_of(odd).file, place_of(odd).object) == (odd, "")
    assert (place_of(f"{odd}:Net").file, place_of(f"{odd}:Net").object) == (odd, "Net")


def test_dotted_names_are_modules() -> None:
    assert (place_of("pkg.mod:Net").module, place_of("pkg.mod:Net").object) == ("pkg.mod", "Net")
    assert place_of("pkg.mod").module == "pkg.mod"


@pytest.mark.parametrize("target", ["", "a b", "pkg.mod:", "1:2", ":x"])
def test_words_that_are_neither_are_refused(target: str) -> None:
    with pytest.raises(TargetError, match=r"file\.py:object"):
        place_of(target)


def test_a_missing_file_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    written(tmp_path, "", "transformer.py")
    with pytest.raises(TargetError, match=r"Did you mean .*transformer\.py"):
        place_of(tmp_path / "transfomer.py")
    with pytest.raises(TargetError, match=r"directory .* does not exist either"):
        place_of(tmp_path / "nowhere" / "model.py:Net")
    with pytest.raises(TargetError, match="is a directory"):
        place_of(tmp_path)
