"""What a container keeps from MPI: the verdict of a shell is that of the system call itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from npc.machine import container
from npc.machine.checks import containers
from npc.machine.preflight import MpiTrial
from tests.lab.containers import missing, stand_in

TRIAL = MpiTrial((), "2")
#: Reads eight bytes at an address of another process (process_vm_readv(2)); exits with the error's number.
READ = """
import ctypes, sys
class Span(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("size", ctypes.c_size_t)]
into = ctypes.create_string_buffer(8)
here, there = Span(ctypes.addressof(into), 8), Span(int(sys.argv[2]), 8)
libc = ctypes.CDLL(None, use_errno=True)
count = libc.process_vm_readv(int(sys.argv[1]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
sys.exit(0 if count == 8 else ctypes.get_errno())
"""
WAIT = """
import ctypes, os, sys
text = ctypes.create_string_buffer(b"message!")
print(os.getpid(), ctypes.addressof(text), flush=True)
sys.stdin.read()
"""


def single_copy(command: Sequence[str]) -> bool:
    """Whether one process behind `command` may copy from another, by the system call that MPI uses."""
    python = [*command, "/usr/bin/python3", "-c"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*python, WAIT], stdin=pipe, stdout=pipe, text=True) as first:
        assert first.stdout is not None
        where = first.stdout.readline().split()
        copied = subprocess.run([*python, READ, *where], check=False, timeout=30).returncode
        first.communicate()
    assert copied in (0, 1), os.strerror(copied)  # EPERM is 1
    return copied == 0


@pytest.fixture
def apptainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if problem := missing():
        pytest.skip(problem)
    programs, image = stand_in(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return image


def symptoms(looked: object) -> list[str]:
    checks = (containers.container_fails, containers.container_single_copy, containers.container_pmix)
    return [text for check in checks for text in check({"container": looked}, TRIAL)]


def test_nothing_is_said_without_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    assert container.look() is None and symptoms(None) == [] and symptoms({}) == []


def test_between_two_user_namespaces_there_is_no_single_copy(
    apptainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["apptainer", "exec", str(apptainer)]
    monkeypatch.setenv(container.COMMAND, " ".join(command))
    looked = container.look()
    assert looked is not None and looked["image"] == "tools.sif" and not looked["problem"]
    assert looked["single_copy"] is single_copy(command) is False
    assert looked["single_copy_refused"] == "Permission denied"
    assert looked["pmix"]["inside"] == looked["pmix"]["outside"], "the machine's own"
    (symptom,) = symptoms(looked)
    assert symptom == "two processes in tools.sif may not read each other's memory: Permission denied"


def test_within_one_user_namespace_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(container.COMMAND, "env")
    looked = container.look()
    assert looked is not None
    assert looked["single_copy"] is single_copy(["env"]), "of Yama's settings it is"


def test_process_numbers_of_its_own_are_no_single_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are number 2 or so in a world of their own, where a process of that number may be read."""
    if missing():
        pytest.skip(missing())
    monkeypatch.setenv(container.COMMAND, "bwrap --unshare-pid --dev-bind / / --proc /proc")
    looked = container.look()
    assert looked is not None and looked["single_copy"] is False
    assert looked["single_copy_refused"] == "each container has process numbers of its own"


def test_a_container_that_is_asked_for_by_a_setting_is_that_of_the_jobs(
    apptainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(container.IMAGE, str(apptainer))
    looked = container.look()
    assert looked is not None and looked["command"].startswith("apptainer --silent exec --bind ")
    assert looked["single_copy"] is False


@pytest.mark.parametrize(
    ("image", "runtime", "reason"),
    [
        ("/no/such.sif", "", "could not open image /no/such.sif"),
        ("/no/such.sif", "singularity", "unavailable: container=/no/such.sif: no singularity on "),
        (
            "/no/such.sif",
            "docker",
            "container_runtime=docker: expected apptainer, singularity, podman or pyxis",
        ),
        ("/two words.sif", "", "the name of an image has no white space"),
    ],
)
def test_an_image_that_does_not_start_is_a_finding(
    image: str, runtime: str, reason: str, apptainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(container.IMAGE, image)
    monkeypatch.setenv("NPC_CONTAINER_RUNTIME", runtime)
    looked = container.look()
    assert looked is not None and looked["single_copy"] is None
    (symptom,) = symptoms(looked)
    assert reason in symptom


def test_a_container_that_never_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(container.COMMAND, f"{sys.executable} -c __import__('time').sleep(60)")
    monkeypatch.setattr(container, "START_S", 0.3)
    began = time.monotonic()
    looked = container.look()
    assert time.monotonic() - began < 5
    assert looked is not None and looked["problem"]


def test_another_major_version_of_pmix_is_noted() -> None:
    looked = {"problem": "", "single_copy": True, "pmix": {"inside": "5.0.1", "outside": "4.2.2rc2"}}
    assert symptoms(looked) == ["PMIx 5.0.1 in the container, 4.2.2rc2 outside"]
    assert symptoms({**looked, "pmix": {"inside": "4.2.9", "outside": "4.2.2rc2"}}) == []
    assert symptoms({**looked, "pmix": {"inside": None, "outside": "4.2.2rc2"}}) == []
