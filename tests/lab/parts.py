"""The folders of program analysis, which may have been taken away, and what is only tested where they are."""

from __future__ import annotations

from typing import Final

import pytest

from tests.paths import ROOT

PARTS: Final = ("mpi", "memory", "hotspots", "probes", "study")
ALL_THERE: Final = all((ROOT / "observe" / part).exists() for part in PARTS)
#: Tests that are left out without them: what they read, show or say is that of all folders.
NEED_ALL: Final = (
    "test_readme.py",
    "test_without_parts.py",
    "npc/figures/test_gallery.py",
    "npc/test_foreign_commands.py",
    "npc/test_foreign_files.py",
    "observe/test_circles_in_libraries.py",
    "report/test_browser.py",
    "report/test_report.py",
)
needs_parts = pytest.mark.skipif(not ALL_THERE, reason="folders of observe/ were taken away")
