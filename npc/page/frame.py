"""A page: sections of blocks with style and script in one file that fetches nothing.

Its content security policy allows the one style and the one script by their hashes and nothing else, so that
not even a name in a record that looked like markup could make a browser do anything. Templates escape every
value (Jinja's autoescape); pictures escape their own texts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple

from markupsafe import Markup

import npc
from npc.figures.scale import SHADES
from npc.page.blocks import Block, figures

TEMPLATES: Final = Path(__file__).parent / "templates"


class Section(NamedTuple):
    """A section of the page that has something to show."""

    #: Its anchor in the page.
    name: str
    #: What its heading and the list of sections say.
    title: str
    #: What it shows, from the top down.
    blocks: list[Block]


def render(
    title: str,
    subtitle: str,
    sections: Sequence[Section],
    template: Path = TEMPLATES / "frame.html",
    **values: Any,
) -> str:
    """The whole page as HTML.

    template: ``frame.html``, or one that extends it and is given `values` besides.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    drawn = [figure for section in sections for figure in figures(section.blocks)]
    style = _texts(TEMPLATES / "page.css", [figure.style for figure in drawn])
    script = _texts(TEMPLATES / "page.js", [figure.script for figure in drawn])
    style += "\n" + " ".join(f".{name} {{ --h: {colour} }}" for name, colour in SHADES.items())
    environment = Environment(
        loader=FileSystemLoader([template.parent, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template.name).render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
        version=npc.__version__,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        **values,
    )


def _texts(first: Path, others: Iterable[Path | None]) -> str:
    """The content of some files, each once."""
    files = dict.fromkeys([first, *filter(None, others)])
    return "\n".join(file.read_text(encoding="utf-8").strip() for file in files)


def policy(style: str, script: str) -> str:
    """The content security policy: nothing but this style, this script, and pictures within the page."""
    allowed = " ".join(
        f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}';"
        for kind, text in (("style", style), ("script", script))
    )
    return f"default-src 'none'; {allowed} img-src data:; base-uri 'none'; form-action 'none'"
