"""The process that loads libraries ahead: the same results with it, without it, and when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from npc.ahead import Ahead

TWO = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: nothing is done ahead")
#: Each trial is a fresh Python, which has one thread and has not loaded the module yet.
HEAD = """
import atexit, os, signal, sys, time
from npc.ahead import Ahead

def where(*words):
    return os.getpid(), "tabnanny" in sys.modules, words

def killed():
    if os.getpid() != first:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done here"

def fails():
    raise PermissionError(13, "Permission denied", "there")

def no_message():
    return lambda: "what cannot be sent"

first = os.getpid()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HEAD + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def result_of(program: str) -> str:
    ended = run(program)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@TWO
def test_what_is_begun_is_done_where_the_module_is_loaded() -> None:
    program = """
with Ahead("tabnanny") as ahead:
    for words in [("one", 1), ("two", b"x" * 1_000_000)]:
        pid, loaded, echo = ahead.begin(where, *words)()
        print(pid != first, loaded, echo == words)
    print("tabnanny" in sys.modules)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no process is left")
"""
    assert result_of(program) == "True True True\nTrue True True\nFalse\nno process is left\n"


@TWO
@pytest.mark.parametrize(
    ("call", "shown"),
    [("killed", "done here"), ("no_message", "<function no_message.<locals>.<lambda>"), ("", "done here")],
    ids=["killed at it", "result that is no message", "killed before"],
)
def test_what_does_not_come_back_is_done_here(call: str, shown: str) -> None:
    before = "" if call else "os.kill(ahead._process.pid, signal.SIGKILL); ahead._process.join()"
    program = f"""
with Ahead("tabnanny") as ahead:
    {before}
    print(ahead.begin({call or "killed"})())
    print(ahead.begin(where)()[0] == first)
"""
    first, second = result_of(program).splitlines()
    assert first.startswith(shown)
    assert second == "True"


@TWO
def test_a_failure_there_is_one_here() -> None:
    program = """
with Ahead("tabnanny") as ahead:
    end = ahead.begin(fails)
    try:
        end()
    except PermissionError as error:
        print(error.strerror, error.filename)
    print(ahead.begin(where)()[0] != first)
"""
    assert result_of(program) == "Permission denied there\nTrue\n"


@TWO
def test_a_failure_meanwhile_ends_both_at_once() -> None:
    ended = run(
        '\nwith Ahead("tabnanny") as ahead:\n    ahead.begin(time.sleep, 0.1)\n    sys.exit("bad input")\n'
    )
    assert (ended.returncode, ended.stderr) == (1, "bad input\n")


@TWO
def test_each_clears_up_behind_itself_at_its_own_end() -> None:
    program = """
atexit.register(print, "the first one's", flush=True)
with Ahead("tabnanny") as ahead:
    ahead.begin(atexit.register, print, "the second one's")()
print("between")
"""
    assert result_of(program) == "the second one's\nbetween\nthe first one's\n"


def test_without_a_second_processor_all_is_done_here() -> None:
    program = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with Ahead("tabnanny") as ahead:
    print(ahead.begin(where, "one")() == (first, False, ("one",)))
"""
    assert result_of(program) == "True\n"


def test_a_module_that_is_loaded_is_used_here() -> None:
    with Ahead("pytest") as ahead:
        assert ahead.begin(os.getpid)() == os.getpid()
