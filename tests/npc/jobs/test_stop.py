"""A stop is a wish that whoever waits looks at, whenever the signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from npc.jobs.stop import Stop

TRIALS = 3000
#: Sends one of both signals for each line that it reads, a moment later.
SENDER = f"""
import os, random, sys, time
waiter = os.getppid()
for line in sys.stdin:
    time.sleep(random.uniform(0, 0.0003))
    os.kill(waiter, random.choice(({signal.SIGINT:d}, {signal.SIGTERM:d})))
"""
WAITER = f"""
import faulthandler, subprocess, sys
faulthandler.dump_traceback_later(100, exit=True)
from npc.jobs.stop import Stop
child = subprocess.Popen(["sleep", "110"])
sender = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, text=True)
for trial in range({TRIALS}):
    with Stop().listening() as stop:
        print(file=sender.stdin, flush=True)
        if trial % 2:
            while not stop.wait(1e-5):
                pass
        elif stop.wait_for(child, 110):
            sys.exit("the child has ended")
child.kill()
"""


@pytest.mark.slow
def test_a_signal_in_the_middle_of_waiting_is_heard() -> None:
    """Where the handler needed what waiting holds, one of the first thousand hung."""
    ended = subprocess.run(
        [sys.executable, "-c", WAITER, SENDER], capture_output=True, text=True, timeout=110
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_waiting_ends_with_its_time_or_with_a_stop() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop().listening() as stop:
        began = time.monotonic()
        assert not stop.wait(0.25)
        assert time.monotonic() - began >= 0.25
        assert not stop.wait(-1.0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(3600.0)
        assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
