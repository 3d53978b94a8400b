"""Wait for children that signal this process at any moment, which passes the signal on, and end by it.

    python sent_at_any_moment.py CHILDREN

Prints how many did not get it: the signal came just before the wait, which nothing then ended.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from types import FrameType

from npc.observe.passed_signals import wait_for_end

#: Seconds: the wait begins within this of the child's first step.
LATEST_S = 2e-4
#: Seconds until a child that is not sent its signal ends.
PATIENCE_S = 2


def child() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    signal.alarm(PATIENCE_S)
    end = time.perf_counter() + LATEST_S * random.random()
    while time.perf_counter() < end:
        pass
    os.kill(os.getppid(), signal.SIGUSR1)
    while True:
        signal.pause()


def main(children: int) -> None:
    process = 0

    def pass_on(number: int, _: FrameType | None) -> None:
        os.kill(process, number)

    signal.signal(signal.SIGUSR1, pass_on)
    without = 0
    for _ in range(children):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        process = os.fork()
        if process == 0:
            child()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        wait_for_end(process)
        without += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != -signal.SIGUSR1
    print(without)


main(int(sys.argv[1]))
