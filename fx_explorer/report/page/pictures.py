"""The pictures of the page: the SVG that the app writes of a view, in the form that the page's
policy allows. A style in the text is refused there, as element and as attribute: a script gives
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from fx_explorer.errors import UsageError
from fx_explorer.report.sections import ReportSection

_SVG = "{http://www.w3.org/2000/svg}"

_LINK = "{http://www.w3.org/1999/xlink}href"

SHAPES = {"path", "rect", "circle", "line", "polyline", "polygon", "ellipse", "text", "tspan"}

DRAWING = SHAPES | {"svg", "g", "defs", "use", "clipPath", "title"}
"""Elements that draw. Everything else is left out."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of the sections."""

    drawn: Mapping[str, Mapping[str, str]]
    """Name of a section → the picture (``svg``) and its rules (``style``)."""
    missing: Mapping[str, str]
    """Name of a section → why its picture cannot be drawn here."""


def pictures(sections: Iterable[ReportSection]) -> Pictures:
    """Return the pictures of sections that have one."""
    drawn: dict[str, Mapping[str, str]] = {}
    missing: dict[str, str] = {}
    for section in sections:
        if section.picture is None:
            continue
        try:
            drawn[section.name] = for_page(section.picture())
        except UsageError as error:
            missing[section.name] = str(error)
    return Pictures(drawn, missing)


def for_page(text: str) -> Mapping[str, str]:
    """Return a picture without styles in it, and the styles."""
    root = ElementTree.fromstring(text)
    rules = [style.text or "" for style in root.iter(f"{_SVG}style")]
    for element in list(root.iter()):
        for inner in list(element):
            if not isinstance(inner.tag, str) or inner.tag.removeprefix(_SVG) not in DRAWING:
                element.remove(inner)
        _keep_plain(element.attrib)
    ElementTree.register_namespace("", _SVG[1:-1])
    ElementTree.register_namespace("xlink", _LINK[1:].partition("}")[0])
    return {"svg": ElementTree.tostring(root, encoding="unicode"), "style": "\n".join(rules)}


def _keep_plain(attributes: dict[str, str]) -> None:
    """Keep attributes that draw: no handler, no link but one inside of the picture."""
    for name, value in list(attributes.items()):
        is_outer_link = name.endswith("href") and not value.startswith("#")
        if name.startswith("on") or is_outer_link:
            del attributes[name]
    if style := attributes.pop("style", ""):
        attributes["data-style"] = style
