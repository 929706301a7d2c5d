"""This module finds the plug-ins of installed packages, loads them when they are needed, and tells
of those that fail. What a plug-in can be is in ``plugins.py``.

A plug-in is an entry point in one of the groups of ``GROUPS``. Packages are looked up at most once
a process, and only when something is asked that a plug-in could answer. A folder that is searched
only because it is the current one is left out: whoever wrote a file there installed nothing.

Nothing that a plug-in raises or returns leaves this module unchecked: ``attempt`` turns it into a
``PluginFault``, which is told once.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from fx_explorer.folders import config_path
from fx_explorer.highlight import printable_text
from fx_explorer.output.terminal import print_fitted
from fx_explorer.outside_file import read_toml, shown_message, shown_value

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

INTERFACE = 1
"""Version of the interface that ``plugins.py`` has. A plug-in names the one it was written for."""

PluginKind = Literal["readers", "problems", "panes", "views", "sections", "gpus"]

GROUPS: dict[PluginKind, str] = {
    "readers": "fx_explorer.readers",
    "problems": "fx_explorer.problems",
    "panes": "fx_explorer.panes",
    "views": "fx_explorer.views",
    "sections": "fx_explorer.sections",
    "gpus": "fx_explorer.gpus",
}
"""Kind of plug-in → its group of entry points."""

NOUNS: dict[PluginKind, str] = {
    "readers": "reader",
    "problems": "kind of problem",
    "panes": "pane",
    "views": "view",
    "sections": "section",
    "gpus": "GPU",
}

OPTION = "--no-plugins"

_NAME = re.compile(r"[a-z_][a-z0-9_-]*")
"""Matches the name of a plug-in, which is typed after ``--section`` and ``--gpu``."""

OfferT = TypeVar("OfferT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """An entry point of an installed package, which need not be loaded."""

    kind: PluginKind
    name: str
    package: str
    version: str
    entry_point: EntryPoint

    @property
    def title(self) -> str:
        """Return ``the view dtypes (fx-explorer-sample 1.0)``."""
        return f"the {NOUNS[self.kind]} {self.name} ({self.package} {self.version})"


@dataclass(frozen=True, slots=True)
class Plugin(Generic[OfferT]):
    """A plug-in that is loaded, and what it offers."""

    installed: InstalledPlugin
    offer: OfferT

    @property
    def name(self) -> str:
        return self.installed.name


@dataclass(frozen=True, slots=True)
class PluginFault:
    """What a plug-in did wrong."""

    plugin: InstalledPlugin
    reason: str
    """What happened, with its place in the plug-in's code."""

    @property
    def sentence(self) -> str:
        """Return what happened and what to do about it."""
        package = self.plugin.package
        return (
            f"{self.plugin.title} is not used: {self.reason}. Update or uninstall it (pip "
            f"uninstall {package}), or ignore all plug-ins: fx-explorer {OPTION} …"
        )


@dataclass
class KnownPlugins:
    """What this process knows of plug-ins."""

    off: str = ""
    """Why no plug-in is used; empty if the settings decide."""
    installed: list[InstalledPlugin] | None = None
    """None before they are looked up."""
    loaded: dict[PluginKind, list[Plugin[object]]] = field(default_factory=dict)
    told: dict[InstalledPlugin, PluginFault] = field(default_factory=dict)


_known = KnownPlugins()

_lock = threading.RLock()


# whether plug-ins are used


def use_no_plugins(reason: str) -> None:
    """Leave out all plug-ins in this process. ``reason`` completes "no plug-in is used:"."""
    _known.off = reason


def why_off() -> str:
    """Return why no plug-in is used; empty if plug-ins are used."""
    return _known.off or _settings().why_off


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The table ``[plugins]`` of the configuration file, with its errors."""

    use: bool = True
    left_out: tuple[str, ...] = ()
    """Packages whose plug-ins are not used."""
    problems: tuple[str, ...] = ()

    @property
    def why_off(self) -> str:
        """Return why no plug-in is used; empty if plug-ins are used."""
        if self.problems:
            return self.problems[0]
        return "" if self.use else f"use = false in {config_path()}"


NAMES = ("use", "left_out")


def parse_plugins(table: object, where: str) -> PluginSettings:
    """Return the settings of the table ``[plugins]``. With a mistake in it no plug-in is used."""
    if not isinstance(table, dict):
        message = f"{where}: plugins must be a table: [plugins] followed by use = false"
        return PluginSettings(use=False, problems=(message,))
    use, left_out = table.get("use", True), table.get("left_out", [])
    problems = []
    if not isinstance(use, bool):
        problems.append(f"{where}: use = {shown_value(use)} must be true or false")
    if not isinstance(left_out, list) or not all(isinstance(name, str) for name in left_out):
        problems.append(
            f"{where}: left_out = {shown_value(left_out)} must be a list of names of packages"
        )
    others = [name for name in table if name not in NAMES]
    problems += [f"{where}: {shown_value(name)} is not a setting of [plugins]" for name in others]
    if problems:
        return PluginSettings(use=False, problems=tuple(problems))
    return PluginSettings(use, tuple(_plain(name) for name in left_out))


def _settings() -> PluginSettings:
    """Return the settings of the configuration file; no plug-in is used where it cannot be read."""
    try:
        entries = read_toml(config_path())
    except (FileNotFoundError, NotADirectoryError):
        return PluginSettings()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return PluginSettings(use=False, problems=(f"{config_path()} cannot be read ({reason})",))
    return parse_plugins(entries.get("plugins", {}), str(config_path()))


# which are installed


def installed_plugins(kind: PluginKind | None = None) -> list[InstalledPlugin]:
    """Return the plug-ins of installed packages, of one kind or of all, by package and name.
    Nothing of theirs is imported. Empty if none is to be used.
    """
    with _lock:
        if _known.installed is None:
            _known.installed = [] if why_off() else _find_installed()
        return [plugin for plugin in _known.installed if kind in (None, plugin.kind)]


def _find_installed() -> list[InstalledPlugin]:
    left_out = _settings().left_out
    installed = [plugin for plugin in _entry_points() if _plain(plugin.package) not in left_out]
    return sorted(installed, key=lambda plugin: (plugin.package, plugin.kind, plugin.name))


def _entry_points() -> Iterator[InstalledPlugin]:
    kinds = {group: kind for kind, group in GROUPS.items()}
    packages: set[str] = set()
    for folder in _metadata_folders():
        from importlib.metadata import PathDistribution  # for those who have plug-ins: 50 ms

        distribution = PathDistribution(folder)
        package = distribution.metadata["Name"] or folder.stem
        # As in an import, the first of two installations is used.
        if _plain(package) in packages:
            continue
        packages.add(_plain(package))
        for entry_point in distribution.entry_points:
            if kind := kinds.get(entry_point.group):
                version = distribution.version or "?"
                yield InstalledPlugin(kind, entry_point.name, package, version, entry_point)


def _metadata_folders() -> Iterator[Path]:
    """Yield the folders of installed packages that have entry points of ours.
    importlib.metadata takes 60 ms to import and 12 to look at 100 packages; this takes 5.
    """
    titles = [f"[{group}]".encode() for group in GROUPS.values()]
    for searched in installed_folders():
        try:
            names = sorted(os.listdir(searched))
        except OSError:  # a zip archive, or a folder that is gone
            continue
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            folder = Path(searched, name)
            try:
                text = (folder / "entry_points.txt").read_bytes()
            except OSError:  # most packages have none
                continue
            if any(title in text for title in titles):
                yield folder


def installed_folders() -> list[str]:
    """Return the folders in which packages are installed, of those that Python searches. The
    current folder is one of them only if a package was installed from it.

    Python puts the current folder, and those of PYTHONPATH, before its standard library; what is
    installed, and what an editable installation names, comes after it (``site``).
    """
    library = os.path.realpath(os.path.dirname(os.__file__))
    here = os.path.realpath(os.getcwd())
    is_after_library = False
    folders = []
    for entry in sys.path:
        folder = os.path.realpath(entry or os.curdir)
        is_after_library = is_after_library or folder == library
        if os.path.isabs(entry) and (folder != here or is_after_library):
            folders.append(entry)
    return folders


def _plain(package: str) -> str:
    """Return the name of a package as two that are the same are written."""
    return package.lower().replace("_", "-").replace(".", "-")


# what they offer


def plugins_of(
    kind: PluginKind, offer_type: type[OfferT], taken: Collection[str] = ()
) -> list[Plugin[OfferT]]:
    """Return the plug-ins of a kind, loaded. One that cannot be used is told and left out.
    ``taken``: names that fx-explorer's own have, and no plug-in can.
    """
    with _lock:
        if kind not in _known.loaded:
            _known.loaded[kind] = list(_load(kind, offer_type, set(taken)))
        return [
            Plugin(plugin.installed, plugin.offer)
            for plugin in _known.loaded[kind]
            if isinstance(plugin.offer, offer_type)
        ]


def _load(kind: PluginKind, offer_type: type[object], names: set[str]) -> Iterator[Plugin[object]]:
    for installed in installed_plugins(kind):
        offer = attempt(installed, partial(load_offer, installed, offer_type))
        if isinstance(offer, PluginFault):
            continue
        if installed.name in names:
            reason = f"there is another {NOUNS[kind]} of this name"
            _tell_once(PluginFault(installed, reason))
            continue
        names.add(installed.name)
        yield Plugin(installed, offer)


def load_offer(plugin: InstalledPlugin, offer_type: type[object]) -> object:
    """Import what a plug-in offers. Raises whatever it raises, and TypeError for what is no offer,
    or one for another version of the interface.
    """
    if not _NAME.fullmatch(plugin.name):
        raise TypeError(
            f"its name cannot be {shown_value(plugin.name)}: use small letters, digits, _ and -"
        )
    with _importing_installed():
        offer = plugin.entry_point.load()
    if not isinstance(offer, offer_type):
        raise TypeError(
            f"{plugin.entry_point.value} is {type(offer).__name__}, but must be "
            f"fx_explorer.plugins.{offer_type.__name__}"
        )
    interface = getattr(offer, "interface", None)
    if interface != INTERFACE:
        raise TypeError(
            f"it needs version {shown_value(interface)} of the plug-in interface, but this "
            f"fx-explorer has version {INTERFACE}"
        )
    for part in fields(offer) if is_dataclass(offer) else ():
        _check_field(part.name, str(part.type), getattr(offer, part.name))
    return offer


def _check_field(name: str, type_name: str, value: object) -> None:
    """Raise TypeError where a text or a function of an offer is something else."""
    is_wrong_text = type_name == "str" and not isinstance(value, str)
    is_wrong_function = type_name.startswith("Callable") and not callable(value)
    if is_wrong_text or is_wrong_function:
        raise TypeError(f"{name} cannot be {shown_value(value)}")


@contextlib.contextmanager
def _importing_installed() -> Iterator[None]:
    """Import from where packages are installed: a file in the current folder that is called like a
    module of the plug-in is not imported.
    """
    before = sys.path[:]
    sys.path[:] = installed_folders()
    try:
        yield
    finally:
        sys.path[:] = before


# those that fail


def attempt(plugin: InstalledPlugin, make: Callable[[], ResultT]) -> ResultT | PluginFault:
    """Return what ``make``, which calls a plug-in and checks its answer, returns; a fault, which
    is told once, for all that it raises. What the plug-in prints goes to stderr: stdout is data.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return make()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - told: a plug-in never ends a command
        return _tell_once(PluginFault(plugin, _reason(error)))


def _reason(error: BaseException) -> str:
    """Return an error with the last line of the plug-in's own code in it."""
    reason = f"{type(error).__name__}: {shown_message(error)}" if str(error) else repr(error)
    ours = str(Path(__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        is_of_import = frame.filename.startswith("<") or "importlib" in frame.filename
        if not is_of_import and not frame.filename.startswith(ours):
            return f"{reason} ({frame.filename}:{frame.lineno})"
    return reason


def faults() -> list[PluginFault]:
    """Return what plug-ins did wrong so far, the first of each."""
    return list(_known.told.values())


def _print_fault(fault: PluginFault) -> None:
    sentence = printable_text(fault.sentence).removeprefix("the ")
    print_fitted(f"fx-explorer: plug-in: {sentence}", sys.stderr)


_tell: list[Callable[[PluginFault], None]] = [_print_fault]


@contextlib.contextmanager
def telling_faults(tell: Callable[[PluginFault], None]) -> Iterator[None]:
    """Have ``tell`` tell of plug-ins that fail in the block, in place of a line on stderr. It may
    be called in any thread.
    """
    _tell.append(tell)
    try:
        yield
    finally:
        _tell.remove(tell)


def _tell_once(fault: PluginFault) -> PluginFault:
    """Tell of a plug-in that fails, unless that was done before. Returns the fault."""
    with _lock:
        is_new = _known.told.setdefault(fault.plugin, fault) is fault
    if is_new:
        _tell[-1](fault)
    return fault
