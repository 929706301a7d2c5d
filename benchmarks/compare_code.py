"""Does recording change what the compiler generates? Compares the code of a bare compile with that
of a captured one.

    python -m benchmarks.compare_code [MODEL ...] [--build]

The bare code is what Inductor itself wrote into its cache directory; the captured code is what
stands in the session. Comments are left aside (they hold paths, and provenance where that is
switched on).
"""

from __future__ import annotations

import argparse
import difflib
import io
import re
import tempfile
import tokenize
from pathlib import Path

from benchmarks.common import cold_compile
from fx_explorer.model import Artifact
from fx_explorer.session import SessionReader

DEFAULT_MODELS = ["mlp", "resnet", "transformer", "llama2", "bert", "t5", "vit"]
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING}


def without_comments(code: str) -> str:
    """The tokens of a wrapper, one a line, without comments: neither its own nor those of the
    kernels in its strings.
    """
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    kept = (token.string for token in tokens if token.type not in _LAYOUT)
    return "\n".join(re.sub(r"[ \t]*//.*", "", text) if "\n" in text else text for text in kept)


def written_code(cache: Path) -> list[str]:
    """The wrappers that Inductor wrote into its cache directory, without comments, sorted."""
    texts = (path.read_text() for path in cache.rglob("*.py"))
    return sorted(without_comments(text) for text in texts if "async_compile" in text)


def recorded_code(session: Path) -> list[str]:
    """The wrappers in a session, without comments, sorted."""
    with SessionReader(session) as reader:
        artifacts = reader.rows(Artifact, kind="output_code")
        return sorted(without_comments(reader.text(artifact.text)) for artifact in artifacts)


def difference(bare: list[str], ours: list[str]) -> str:
    """Empty when equal, else a unified diff."""
    if bare == ours:
        return ""
    before, after = ("\n".join(codes).splitlines() for codes in (bare, ours))
    return "\n".join(difflib.unified_diff(before, after, "bare", "captured", lineterm=""))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=DEFAULT_MODELS)
    parser.add_argument("--build", action="store_true")
    arguments = parser.parse_args()
    different = 0
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as bare, tempfile.TemporaryDirectory() as ours:
            cold_compile(model, "bare", Path(bare))
            cold_compile(model, "build" if arguments.build else "inspect", Path(ours))
            expected = written_code(Path(bare) / "inductor")
            found = difference(expected, recorded_code(Path(ours) / "session.fxs"))
        different += bool(found) or not expected
        print(
            f"{model:12} {len(expected)} wrappers: {'DIFFERENT' if found else 'identical'}\n{found}".rstrip(),
            flush=True,
        )
    raise SystemExit(1 if different else 0)


if __name__ == "__main__":
    main()
