"""The table of versions in docs/tools.md is that of ``tests/data/versions.toml``, whose outputs show them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests import captured
from tests.paths import ROOT

#: Tool → kind → version → patterns of its files.
VERSIONS: Final[dict[str, dict[str, dict[str, str | list[str]]]]] = msgspec.toml.decode(
    (captured.DATA / "versions.toml").read_bytes()
)
KINDS: Final = ("formats", "measured")


def files(patterns: str | list[str]) -> Iterator[Path]:
    """The outputs that a version names."""
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = sorted(captured.DATA.glob(pattern))
        assert found, f"versions.toml: {pattern} is no file"
        yield from (path for path in found if path.name not in (captured.EXPECTED, "README.md"))


@pytest.mark.parametrize("tool", sorted(set(captured.FOLDERS.values())))
def test_every_version_is_shown_by_an_output_and_every_output_by_a_version(tool: str) -> None:
    """A version that an output prints is the one that it stands for; one without a number stands for none."""
    claimed = set()
    assert set(VERSIONS[tool]) <= set(KINDS)
    for kind in KINDS:
        for version, patterns in VERSIONS[tool].get(kind, {}).items():
            paths = list(files(patterns))
            readings = {
                path: captured.expected(path.parent.name)[path.name] for path in paths if path not in claimed
            }
            claimed |= set(paths)
            assert any(row[2] is not None for rows in readings.values() for row in rows), version
            printed = {row[6] for rows in readings.values() for row in rows if len(row) > 6}
            assert all(each in version for each in printed), (version, printed)
    with_numbers = {
        captured.DATA / folder / name
        for folder, parser in captured.FOLDERS.items()
        if parser == tool
        for name, rows in captured.expected(folder).items()
        if any(row[2] is not None for row in rows)
    }
    assert with_numbers <= claimed


def test_the_docs_show_them() -> None:
    assert set(VERSIONS) == set(captured.FOLDERS.values())
    rows = [
        "| " + " | ".join([f"`{tool}`", *("; ".join(kinds.get(kind, ())) for kind in reversed(KINDS))]) + " |"
        for tool, kinds in sorted(VERSIONS.items())
    ]
    text = (ROOT / "docs/tools.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| `")] == rows
