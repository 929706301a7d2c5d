"""These tests check what a release on PyPI depends on: the workflow, the addresses and links that
are written before it is built, and the metadata.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fx_explorer import __version__
from tests.conftest import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
ADDRESS = "https://github.com/somebody/fx-explorer"
TAG = f"v{__version__}"


def toml(path: Path) -> dict[str, Any]:
    reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    content: dict[str, Any] = reader.loads(path.read_text())
    return content


@pytest.fixture
def workflow() -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return content


def prepare(folder: Path, address: str, tag: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a copy of the files that it changes."""
    (folder / "fx_explorer").mkdir(exist_ok=True)
    for name in ("README.md", "pyproject.toml", "fx_explorer/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, str(ROOT / ".ci" / "prepare_release"), address, tag]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_only_a_tag_is_released_and_only_the_last_job_may_publish(
    workflow: dict[Any, Any],
) -> None:
    assert workflow[True] == {"push": {"tags": ["v*"]}}, "YAML reads on as true"
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    may_publish = [name for name, job in jobs.items() if "id-token" in job["permissions"]]
    assert may_publish == ["publish"]
    assert jobs["publish"]["environment"] == "pypi"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    for job in jobs.values():
        assert set(job.get("needs", [])) <= set(jobs) or job["needs"] in jobs
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert "${{ secrets" not in str(step)


def test_it_builds_checks_and_publishes_what_was_built(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]
    runs = [step.get("run", "") for step in jobs["build"]["steps"]]
    order = [".ci/prepare_release", "python -m build", "twine check --strict dist/*"]
    places = [next(at for at, run in enumerate(runs) if wanted in run) for wanted in order]
    assert places == sorted(places)
    kept = next(step for step in jobs["build"]["steps"] if "upload-artifact" in str(step))
    for name in ("install", "publish"):
        taken = next(step for step in jobs[name]["steps"] if "download-artifact" in str(step))
        assert taken["with"]["name"] == kept["with"]["name"]
        assert "checkout" not in str(jobs[name]), "what was built is used, and nothing else"
    assert jobs["publish"]["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")


def test_each_python_of_the_metadata_installs_the_wheel(workflow: dict[Any, Any]) -> None:
    project = toml(ROOT / "pyproject.toml")["project"]
    minor = [
        found[1]
        for classifier in project["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
    ]
    assert minor == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert workflow["jobs"]["install"]["strategy"]["matrix"]["python"] == minor
    assert project["requires-python"] == f">={minor[0]}"
    assert set(project["scripts"]) == {project["name"]}, "uvx and pipx run look for that name"


def test_every_classifier_is_known_to_pypi() -> None:
    known = pytest.importorskip("trove_classifiers").classifiers
    assert set(toml(ROOT / "pyproject.toml")["project"]["classifiers"]) <= set(known)


def test_the_addresses_are_those_of_the_repository(tmp_path: Path) -> None:
    ended = prepare(tmp_path, ADDRESS, TAG)
    assert ended.returncode == 0, ended.stderr
    before, after = toml(ROOT / "pyproject.toml"), toml(tmp_path / "pyproject.toml")
    urls = after["project"].pop("urls")
    assert after == before
    assert set(urls) >= {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith(ADDRESS) for url in urls.values())
    for name in ("Documentation", "Changelog"):
        path = urls[name].removeprefix(f"{ADDRESS}/blob/{TAG}/")
        assert (ROOT / path).is_file()


def test_every_link_of_the_readme_is_absolute_and_leads_to_a_file(tmp_path: Path) -> None:
    prepare(tmp_path, ADDRESS, TAG)
    links = re.findall(r"\[[^\]]*\]\(([^)]+)\)", (tmp_path / "README.md").read_text())
    assert len(links) > 30
    for link in links:
        assert link.startswith("https://"), link
        found = re.fullmatch(rf"{ADDRESS}/(blob|raw)/{TAG}/([^#]+)(#.*)?", link)
        if found:
            assert (ROOT / found[2]).exists(), link
            assert (found[1] == "raw") == found[2].endswith(".svg"), link


@pytest.mark.parametrize(
    ("address", "tag", "message"),
    [
        (ADDRESS, "v99.0", f"the tag 'v99.0' is not {TAG}"),
        (ADDRESS, __version__, f"is not {TAG}"),
        ('https://x/y"z', TAG, "is not the address of a repository"),
    ],
)
def test_another_tag_or_address_is_refused(
    tmp_path: Path, address: str, tag: str, message: str
) -> None:
    ended = prepare(tmp_path, address, tag)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert (tmp_path / "pyproject.toml").read_text() == (ROOT / "pyproject.toml").read_text()
