"""likwid-bench (LIKWID 5.x): bandwidth and FLOP rate of small assembly kernels at a chosen working set.

``MByte/s`` and ``MFlops/s`` are 10^6 a second, over all threads; bytes are those the kernel loads and stores,
without write-allocate. A rate of zero (``load`` has no FLOP) is no measurement and gives no reading.
`case` is the kernel (``load_avx512``), size the working set that was used: the asked one rounded to the
kernel's loop stride and thread count (``Size (Byte)``). ``-w`` has one thread initialise each stream, ``-W``
each thread its part.

- Threads that share a hardware thread spoil the rate (more threads than CPUs run at a fraction of a
  percent of the speed): invalid, told from the lines that place the threads.
- A bandwidth that contradicts the printed data volume and time is invalid.
- FLOP/s have ``{"precision": "single"}`` or ``double`` after the kernel's name.
- Errors are on stderr; a run that shows no rate has failed.

Source: likwid-bench(1), https://github.com/RRZE-HPC/likwid/wiki/Likwid-Bench.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from npc.record import OK, Reading
from npc.validity.arithmetic import contradiction
from parsers import NUMBER, WHOLE, complete_lines, failed, option, words_after

_TEST: Final = re.compile(r"\nTest: (\w+)[ \t]*(?=\n)")
_RATE: Final = re.compile(rf"\n(MFlops|MByte)/s:[ \t]*({NUMBER})[ \t]*(?=\n)")
_SIZE: Final = re.compile(rf"\nSize \(Byte\):[ \t]*({WHOLE})[ \t]*(?=\n)")
_TIME: Final = re.compile(r"\nTime:[ \t]*([0-9.]{1,18}e[-+][0-9]{2}) sec[ \t]*(?=\n)")
_VOLUME: Final = re.compile(rf"\nData volume \(Byte\):[ \t]*({WHOLE})[ \t]*(?=\n)")
#: One step of a rate's last digit, in B/s.
_STEP: Final = 1e4
_THREADS: Final = re.compile(rf"\nUsing ({WHOLE}) threads(?=\n)")
_PLACE: Final = re.compile(r"\nGroup: \d+ Thread \d+ Global Thread \d+ running on hwthread (\d+) ")
_ERROR: Final = re.compile(
    r"\n(Error: [^\n]*|Cannot find domain [^\n]*|Misformated workgroup string[^\n]*|Unknown test case[^\n]*)"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several runs, FLOP/s before bandwidth; the failure of a run without a rate."""
    words = words_after(argv, "likwid-bench")
    groups = [f"{flag} {value}" for flag, value in pairwise(words) if flag in ("-w", "-W")]
    params = {"workgroup": " ".join(groups)} if groups else {}
    text = complete_lines(text)
    parts = _TEST.split(text)
    for kernel, body in zip(parts[1::2], parts[2::2], strict=True):
        yield from _run(kernel, body + "\n", params)
    if len(parts) == 1:
        asked, error = option(words, "-t"), _ERROR.search(text)
        if asked or error:
            yield _failure(asked or "likwid-bench", error[1] if error else "no result was printed", params)


def _run(kernel: str, body: str, params: dict[str, str]) -> Iterator[Reading]:
    """Readings of what follows a kernel's name."""
    threads, size = _THREADS.search(body), _SIZE.search(body)
    if threads:
        params = {**params, "threads": threads[1]}
    rates = [(name, float(rate)) for name, rate in _RATE.findall(body) if float(rate)]
    if not rates or not size:
        error = _ERROR.search(body)
        yield _failure(kernel, error[1] if error else "no result was printed", params)
        return
    places = _PLACE.findall(body)
    shared = len(places) - len(set(places))
    sharing = f"invalid: {shared + 1} threads or more share a hardware thread" if shared else OK
    time, volume = _TIME.search(body), _VOLUME.search(body)
    for name, rate in rates:
        status = sharing
        if name == "MByte" and status == OK and time and volume:
            wrong = contradiction(rate * 1e6, float(volume[1]), float(time[1]), _STEP)
            status = f"invalid: {wrong}" if wrong else OK
        if name == "MFlops":
            precision = {"precision": "single" if "_sp" in kernel else "double"}
            yield Reading(kernel, "flops", rate * 1e6, int(size[1]), status, {**params, **precision})
        else:
            yield Reading(kernel, "bandwidth", rate * 1e6, int(size[1]), status, params)


def _failure(kernel: str, reason: str, params: dict[str, str]) -> Reading:
    return failed(kernel, "flops" if kernel.startswith("peakflops") else "bandwidth", reason, params=params)
