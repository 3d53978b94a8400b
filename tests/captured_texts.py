"""The captured outputs in which there is a number."""

from __future__ import annotations

from typing import Final

from tests.captured import FOLDERS, expected, outputs

#: Tool, file and text of the captured outputs with a number.
TEXTS: Final = [
    (tool, path, path.read_text(encoding="utf-8"))
    for folder, tool in FOLDERS.items()
    for readings in [expected(folder)]
    for path in outputs(folder)
    if any(value is not None for _, _, value, *_ in readings[path.name])
]
