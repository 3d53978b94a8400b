"""A full disk: whoever writes a night says which file it could not write, and what was there stays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.netns]


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="mounting a small disk needs root"
)
def test_every_writer_of_nights_names_its_file_on_a_full_disk_and_nothing_is_lost(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=4m tmpfs "$1" && exec "$0" -m tests.lab.full_disk "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, sys.executable, tmp_path],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({attempt["writer"] for attempt in tried}) == 10
    for attempt in tried:
        assert attempt["broken"] == [], attempt
        assert attempt["why"] in ("", "No space left on device"), attempt
        if attempt["free"] == 0 or attempt["why"]:
            where = "stdout" if attempt["writer"] == "mail" and attempt["free"] else f"{tmp_path}/"
            assert attempt["path"].startswith(where), attempt
