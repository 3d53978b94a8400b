"""A skip that CI should never see is a failure there, with the reason of the skip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

TESTS = """
import pytest

def test_that_runs():
    pass

def test_without_its_tool():
    pytest.skip("qperf is not installed")

@pytest.mark.skipif(True, reason="needs a cluster")
def test_marked():
    pass

@pytest.mark.optional_skip("RDMA hardware")
@pytest.mark.skipif(True, reason="no RDMA device")
def test_that_may_be_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_that_fails_as_expected():
    assert False
"""
WHOLE_MODULE = "import pytest\npytest.importorskip('no_such_module')\n"


def run(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "tests/conftest.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    netns: x\n    optional_skip(reason): x\n")
    (folder / "test_some.py").write_text(TESTS)
    (folder / "test_module.py").write_text(WHOLE_MODULE)
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--continue-on-collection-errors"],
        cwd=folder,
        env=kept | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_outside_of_ci_a_skip_is_a_skip(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0
    assert "1 passed, 4 skipped, 1 xfailed" in done.stdout


def test_in_ci_it_is_a_failure_unless_it_is_optional(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode == 1
    for reason in ("qperf is not installed", "needs a cluster", "could not import 'no_such_module'"):
        assert re.search(f"skipped, but in CI everything must run: .*{reason}", done.stdout), reason
    assert "no RDMA device" not in done.stdout
    assert re.search(r"1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors", done.stdout)


@pytest.mark.netns
def test_network_namespaces_are_there_for_tests_that_ask_for_them() -> None:
    links = subprocess.run(
        ["unshare", "--net", "ip", "-o", "link"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert not any("eth0" in link for link in links)
