"""What a picture of a sweep may hold, for an audit: what matplotlib draws of numbers, and short texts to be looked at."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from rotoscope.traces.audit_census import Census
from rotoscope.traces.audit_findings import FileFindings

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_PROLOG = (
    b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"\n'
    b'  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">\n<svg '
)
_TAGS = {"svg", "defs", "style", "g", "path", "use", "text", "clipPath", "rect"}
_ID = (
    r"((figure|patch|axes|matplotlib\.axis|xtick|ytick|line2d|text|LineCollection|legend|collections|PolyCollection)_[0-9]{1,5}"
    r"|[mpC][0-9a-f_]{1,40})"
)
_STYLE = (
    r"(fill|stroke): (none|#[0-9a-f]{3,6})|(fill|stroke)-opacity: [0-9.]+|opacity: [0-9.]+|stroke-width: [0-9.]+"
    r"|stroke-dasharray: [0-9., ]+|stroke-dashoffset: [0-9.]+|stroke-linecap: (butt|square|round)"
    r"|stroke-linejoin: (miter|round|bevel)|font-size: [0-9.]+px|font-family: 'DejaVu Sans', sans-serif"
    r"|font-weight: [0-9]{3}|text-anchor: (start|middle|end)"
    r"|font: ([0-9]{3} )?[0-9.]+px 'DejaVu Sans', sans-serif"
)
_NUMBERS = r"-?[0-9.]+(e-?[0-9]+)?(pt)?"
_FORMS = {
    "d": r"[MLCQHVZmlz0-9e.\s-]*",
    "id": _ID,
    "style": rf"(({_STYLE})(; ?|$))*",
    "transform": r"((rotate|translate|scale|matrix)\([-0-9e., ]+\) ?)*",
    "clip-path": rf"url\(#{_ID}\)",
    "viewBox": r"[0-9. ]+",
    "type": "text/css",
    "version": r"1\.1",
    _LINK: rf"#{_ID}",
} | dict.fromkeys(("x", "y", "width", "height"), _NUMBERS)
_CSS = "*{stroke-linejoin: round; stroke-linecap: butt}"
_TEXT = re.compile(r"[ -~\u2212]{1,120}")
_A_NUMBER = re.compile(r"\u2212?[0-9.]+")


def check_picture(data: bytes, findings: FileFindings, census: Census) -> None:
    """Check a picture: known elements, numbers, closed sets, and texts that are listed for people to read."""
    if not data.startswith(_PROLOG) or data.count(b"<!") != 1 or data.count(b"<?") != 1:
        findings.add("expected the head of a picture as matplotlib writes it, and no comments")
        return
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        findings.add("expected XML: the picture is damaged")
        return
    for element in root.iter():
        _check_element(element, findings)


def _check_element(element: ElementTree.Element, findings: FileFindings) -> None:
    tag = element.tag.removeprefix(_SVG)
    if tag not in _TAGS:
        findings.add("has an element that no picture of a sweep has")
        return
    for name, value in element.attrib.items():
        if name not in _FORMS or not re.fullmatch(_FORMS[name], value):
            findings.add("has an attribute that no picture of a sweep has", field=tag)
    text = (element.text or "").strip()
    if (element.tail or "").strip() or (text and tag not in ("text", "style")) or (tag == "style" and text != _CSS):
        findings.add("has text where a picture has none", field=tag)
    elif tag == "text" and text and not _TEXT.fullmatch(text):
        findings.add("has a text that is not a short line", field=tag)
    elif tag == "text" and text and not _A_NUMBER.fullmatch(text):
        findings.see("text in a picture", text)
