"""What a launch printed, read again from its folder."""

from __future__ import annotations

from pathlib import Path

from npc import parsers
from npc.files import leads_out, read_text
from npc.records.build import unread
from npc.records.launch import Launch
from npc.records.reading import Reading


def read_output(folder: Path, tool: str, launch: Launch) -> list[Reading]:
    """What the parser of `tool` reads in the raw output of a launch in `folder`."""
    raw = folder / launch.raw
    try:
        out, err = (
            read_text(path, "replace")
            if launch.raw and path.is_file() and not leads_out(path, folder)
            else ""
            for path in (raw, raw.with_suffix(".err"))
        )
        return parsers.parse(tool, parsers.joined(out, err), launch.argv)
    except (parsers.UnknownParser, OSError) as error:
        return [unread(launch, str(error))]
