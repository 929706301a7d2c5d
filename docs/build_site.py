"""Builds the site of docs/ into site/, or says what it needs: the extra `docs`.

python docs/build_site.py
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEEDED = ("mkdocs", "material", "mkdocs_llmstxt")


def main() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"The site cannot be built: {sys.executable} has no {', '.join(missing)}.\n"
            "`make site` installs what is needed in .venv-site. By hand: pip install -e '.[docs]'"
        )
    # Material's notice about the next release of MkDocs, which pyproject.toml excludes.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=ROOT, env=environment)
    if built.returncode:
        sys.exit(built.returncode)
    print(f"site/ is built. To read it: {sys.executable} -m http.server --directory site")


if __name__ == "__main__":
    main()
