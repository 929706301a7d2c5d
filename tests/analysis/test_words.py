"""These tests check how a fact is written in one line."""

from __future__ import annotations

from fx_explorer.analysis.words import breaks_hit, careful_share, compile_error, module_file


def test_of_a_triton_error_the_place_and_what_is_wrong_are_said() -> None:
    error = "CompilationError: at 4:20:\ndef k(a):\n    tl.laod(a)\n    ^\nAttributeError(\"no attribute 'laod'\")"
    assert (
        compile_error(error) == "CompilationError: at 4:20: AttributeError(\"no attribute 'laod'\")"
    )


def test_another_compile_error_is_its_first_line() -> None:
    assert (
        compile_error("ptxas fatal: no such target\nptxas info: none")
        == "ptxas fatal: no such target"
    )


def test_a_share_is_never_nothing_of_something_nor_all_of_less() -> None:
    shares = {
        part: careful_share(part, 1_000) for part in (0, 1, 4, 5, 380, 994, 995, 996, 999, 1_000)
    }
    assert (shares[0], shares[1_000], shares[380]) == ("0 %", "100 %", "38 %")
    assert {shares[1], shares[4]} == {"<1 %"}
    assert {shares[995], shares[996], shares[999]} == {">99 %"}
    assert "100 %" not in {shares[part] for part in shares if part < 1_000}
    assert careful_share(0, 0) == "0 %"


def test_a_break_is_a_place_and_how_often_it_was_hit_is_told_beside_it() -> None:
    assert breaks_hit(1, 4) == "1 graph break, hit 4 times"
    assert breaks_hit(2, 2) == "2 graph breaks"
    assert breaks_hit(0, 0, "break") == "0 breaks"


def test_of_an_installed_file_its_path_in_the_package_is_said() -> None:
    assert (
        module_file("/venv/lib/python3.12/site-packages/transformers/models/gpt2/a.py")
        == "transformers/models/gpt2/a.py"
    )
    assert module_file("/usr/lib/python3/dist-packages/x.py") == "x.py"
    assert module_file("C:\\env\\Lib\\site-packages\\x\\y.py") == "x/y.py"
    assert module_file("/home/me/my-site-packages/m.py") == "/home/me/my-site-packages/m.py"
