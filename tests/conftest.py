"""What all tests share: folders of their own, what a skip means in CI, and which tests need more than a plain
machine."""

from __future__ import annotations

import functools
import gc
import os
import signal
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.lab.own_folders import own_folders, session_folder
from tests.lab.parts import ALL_THERE, NEED_ALL
from tests.lab.untouched import Untouched

#: Files that pytest does not even import.
collect_ignore = [] if ALL_THERE else list(NEED_ALL)

#: Whether `npc` looks what others compute.
WATCH = "NPC_WATCH"
# Machines are loaded at times; no property depends on how long an example takes.
settings.register_profile("npc", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("npc")
_SESSION = pytest.StashKey[Path]()
_UNTOUCHED = pytest.StashKey[Untouched]()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # what is collected stays: see `pytest_collection_finish`
    # tests side by side measure one machine, each worker what it likes
    locks = tempfile.TemporaryDirectory(prefix="npc-locks-")
    config.add_cleanup(locks.cleanup)
    os.environ["NPC_LOCKS"] = locks.name
    folder = session_folder(is_worker=hasattr(config, "workerinput"))
    config.add_cleanup(folder.cleanup)
    config.stash[_SESSION] = Path(folder.name)
    config.stash[_UNTOUCHED] = Untouched(config.rootpath, Path.home())
    config.add_cleanup(config.stash[_UNTOUCHED].close)
    # JUBE 2.5.1 starts in a third of the time without setuptools' copy of distutils
    os.environ["SETUPTOOLS_USE_DISTUTILS"] = "stdlib"
    # readline, which pytest loads, says 80 columns to all children; nobody's terminal is that of a test
    os.environ.pop("COLUMNS", None)
    # whoever starts the tests in the background of a shell has these ignored, and so would all children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Side by side (``--dist loadgroup``), the tests of a file that share what is made once for it, such as a
    cluster, stay together, but for one that is long enough for a cluster of its own (``xdist_group``); those
    that wait for a guest or a cluster begin first, since they take longest, and of them the largest groups.
    """
    for item in items:
        if _shared_fixtures(item) and not _is_marked(item, "xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    markers = {item: item.get_closest_marker("xdist_group") for item in items}
    sizes = Counter(marker.args[0] for marker in markers.values() if marker)

    def late(item: pytest.Item) -> tuple[bool, bool, int]:
        marker = markers[item]
        of_group = sizes[marker.args[0]] if marker else 0
        return not _is_marked(item, "guest"), not _is_marked(item, "slurm"), -of_group

    items.sort(key=late)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no collection of garbage needs to look through them again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Each test has folders of its own, also for what is made once a module.

    Slow tests run side by side: others that compute are the other tests, and no record were valid. Those
    marked ``measures`` run alone, with what is shipped, and quick ones have it, too.
    """
    os.environ.pop(WATCH, None)
    if _is_marked(item, "slow") and not _is_marked(item, "measures"):
        os.environ[WATCH] = "0"
    with own_folders(item.config.stash[_SESSION]):
        return (yield)


def _is_marked(item: pytest.Item, *names: str) -> bool:
    return any(item.get_closest_marker(name) for name in names)


def _shared_fixtures(item: pytest.Item) -> bool:
    """Whether a test uses what is made once a module."""
    known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return any(found[-1].scope == "module" for found in known.values())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``netns`` make network namespaces of their own, ``slurm`` ones a whole cluster."""
    if item.get_closest_marker("netns") or item.get_closest_marker("slurm"):
        problem = _namespace_problem()
        if problem:
            pytest.skip(f"needs network namespaces: {problem}")
    if item.get_closest_marker("slurm"):
        from tests.lab.cluster import missing

        if missing():
            pytest.skip(missing())


@functools.cache
def _namespace_problem() -> str:
    try:
        tried = subprocess.run(
            ["unshare", "--net", "ip", "link", "show", "lo"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        return str(error)
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"unshare exits {tried.returncode}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skip is a failure, except of a test marked ``optional_skip``; and so is what reads or writes
    what is the user's. Elsewhere it may be the user himself, in another terminal."""
    report = yield
    allowed = item.get_closest_marker("optional_skip") is not None or hasattr(report, "wasxfail")
    _fail_skips(report, allowed)
    touched = item.config.stash[_UNTOUCHED].touched() if call.when == "teardown" else []
    if touched:
        why = "\n".join([f"touched, and not the test's: {item.nodeid}", *touched])
        if os.environ.get("CI") == "true":
            report.outcome = "failed"
            report.longrepr = why
        else:
            warnings.warn(why, stacklevel=1)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for modules that skip themselves as a whole."""
    report = yield
    _fail_skips(report, allowed=False)
    return report


def _fail_skips(report: pytest.TestReport | pytest.CollectReport, allowed: bool) -> None:
    if os.environ.get("CI") != "true" or not report.skipped or allowed:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"skipped, but in CI everything must run: {reason}"
