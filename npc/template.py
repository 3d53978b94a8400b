"""Texts that are mostly fixed: a template beside the module that fills it in."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from npc.one_line import one_line


def filled_in(template: Path, **values: object) -> str:
    """A jinja2 template with its values. It may say ``quoted`` (as JSON and TOML quote a text) and ``shell``
    (one word of a shell). Raises `NotOneLine` for a value that would begin a line of its own."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=lambda value: one_line(value) if isinstance(value, str) else value,
    )
    environment.filters["quoted"] = lambda text: json.dumps(text, ensure_ascii=False)
    environment.filters["shell"] = lambda word: shlex.quote(str(word))
    return environment.get_template(template.name).render(values)
