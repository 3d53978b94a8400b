"""Write the JSON schema of ``verdict.json``, and its table in docs/files.md, from the types that read it.

python -m tests.schemas
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from npc.files import write_whole
from npc.records.verdicts import NightDocument
from tests.paths import ROOT

SCHEMA_FILE: Final = ROOT / "npc/records/verdict.schema.json"
PAGE: Final = ROOT / "docs/files.md"
_BEGIN: Final = "<!-- verdict.json: made by python -m tests.schemas -->\n"
_END: Final = "<!-- end -->\n"


def schema() -> dict[str, Any]:
    """The JSON schema of ``verdict.json``."""
    return msgspec.json.schema(NightDocument)


def schema_text() -> str:
    """The text of its file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def table() -> str:
    """Its keys as a table: those of the night, then those of each of its series."""
    types = schema()["$defs"]
    rows = ["| key | meaning |", "|---|---|"]
    for name, field in types["NightDocument"]["properties"].items():
        many = "[]" if "array" in str(field.get("type")) else ""
        rows.append(f"| `{name}{many}` | {_meaning(field)} |")
        if name == "series":
            rows += [
                f"| `series[].{inner}` | {_meaning(told)} |"
                for inner, told in types["JudgedSeries"]["properties"].items()
            ]
    return "\n".join(rows) + "\n"


def _meaning(field: dict[str, Any]) -> str:
    return str(field["description"])


def page_text() -> str:
    """docs/files.md with the table of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}{table()}{_END}{rest.partition(_END)[2]}"


def main() -> None:
    """Write both."""
    write_whole(SCHEMA_FILE, schema_text())
    write_whole(PAGE, page_text())


if __name__ == "__main__":
    main()
