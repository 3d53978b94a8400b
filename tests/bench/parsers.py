"""How fast the parsers are: MB/s on a tool's own captured outputs and on text that is no tool's.

``python -m tests.bench.parsers [TOOL…]``. Each text is replicated to about 5 MB. The best of many short runs
counts: on a shared machine others slow down a part of them, by a third and more. Beside MB/s stands the ratio
to a plain ``str.splitlines`` over the same text, in which the speed of the machine cancels: 10 means that
parsing takes ten times as long as splitting into lines. ``list`` is `parsers.parse`, which keeps them all.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import parsers
from tests import captured

SIZE = 5_000_000
RUNS = 20


def seconds(work: Callable[[], object]) -> float:
    """The CPU time of the fastest of the runs."""
    best = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def exhaust(parse: parsers.Parser, text: str) -> None:
    deque(parse(text, ()), maxlen=0)


def replicated(text: str) -> str:
    return text * (SIZE // len(text) + 1)


def own_outputs(tool: str) -> str:
    """All captured outputs of a tool behind each other, without the recorder's lines."""
    return "".join(
        captured.text_of(path.parent.name, path.name) for name, path in captured.all_outputs() if name == tool
    )


def noise() -> str:
    """Lines of prose and of numbers, such as a job's log has."""
    lines = [
        f"step {n}: residual {n * 1.7e-9:.6e}  (t = {n * 0.25:8.2f} s)\n    node{n % 64:03d}: {n} left\n"
        for n in range(200)
    ]
    return "".join(lines)


def main(tools: list[str]) -> None:
    print(f"{'parser':10} {'text':6} {'MB/s':>7} {'list':>7} {'× splitlines':>13} {'readings':>9}")
    for tool in tools or sorted(set(captured.FOLDERS.values())):
        parse = parsers.load(tool)
        for kind, text in (("own", replicated(own_outputs(tool))), ("noise", replicated(noise()))):
            taken = seconds(partial(exhaust, parse, text))
            kept = seconds(partial(parsers.parse, tool, text))
            plain = seconds(text.splitlines)
            readings = sum(1 for _ in parse(text, ()))
            speeds = f"{len(text) / taken / 1e6:7.1f} {len(text) / kept / 1e6:7.1f}"
            print(f"{tool:10} {kind:6} {speeds} {taken / plain:13.1f} {readings:9}")


if __name__ == "__main__":
    main(sys.argv[1:])
