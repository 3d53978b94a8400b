"""Where the files of a benchmark lay: the line that NPC prints above the output of IOR and mdtest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from npc.parsers.text.documents import object_of

_HEAD: Final = re.compile(r"\n# NPC files: (\{[^\n]{1,4000}\})(?=\n)")
#: What records note of it. file_size: bytes of all files of a node;
#: filled: the share of the file system that was taken; others: what else the node moved from and to it
#: meanwhile, over what the benchmark did.
_NOTED: Final = ("target", "filesystem", "device", "file_size", "filled", "others")


def place_of_files(text: str) -> dict[str, str]:
    """Target, file system and device as params; none where the line is not there."""
    match = _HEAD.search(text)
    return noted(object_of(match[1])) if match else {}


def noted(head: Mapping[str, Any]) -> dict[str, str]:
    """The params that such an object tells."""
    values = {name: head.get(name) for name in _NOTED}
    return {name: str(value) for name, value in values.items() if isinstance(value, str | int) and value}
