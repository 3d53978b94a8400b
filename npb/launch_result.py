"""The result of a launch: whether its numbers may be believed.

An exit code is not enough: sockperf exits 0 whatever happens, perftest's client prints a row after its
server was killed, qperf reports 0 bytes/sec with exit 0. So a step is ``ok`` only if the server lived
through it, the client ended well, its parser read at least one good number and found no failure, and, where
a tool counts what it sent by UDP, the server's host received datagrams.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from npc.machine.command import last_line
from npc.npb.nodes import ToolEnd, ending
from npc.npb.output import READ_BYTES, Output
from npc.records.launch import command_of, not_inside, tool_of
from npc.records.reading import Reading
from npc.records.record import OK
from npc.records.units import format_size

RAW: Final = "raw"

_PERFTEST: Final = re.compile(r"(ib|raw_ethernet)_\w+")
_SENT: Final = re.compile(r"Total of (\d+) messages sent")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m|\[2;35m|\[0m")
#: Below this part of the messages nothing was measured but the sender's own queue.
_NOBODY_RECEIVED: Final = 0.01


class BlamedSide(Enum):
    """Which side a failed step is laid to; its value is npb's exit code."""

    NONE = 0
    SERVER = 3
    CLIENT = 4
    TIME = 5


class LaunchResult(NamedTuple):
    """Whether the numbers of a launch may be believed."""

    #: As in `npc.records.record.Record`.
    status: str
    #: Which side its failure is laid to.
    blame: BlamedSide
    #: What the parser read.
    readings: tuple[Reading, ...] = ()
    #: Share of the messages that the server received by UDP; None where the tool does not count them.
    received: float | None = None


def parser_of(argv: Sequence[str], known: Sequence[str]) -> str:
    """The parser for a command: that of its tool's name, ``perftest`` for its many programs, else ``raw``."""
    tool = tool_of(argv)
    if tool in known:
        return tool
    return "perftest" if _PERFTEST.fullmatch(tool) and "perftest" in known else RAW


def judge_launch(parser: str, argv: Sequence[str], client: ToolEnd, datagrams: int) -> LaunchResult:
    """The result of a client whose server lived. `datagrams`: UDP datagrams its host received meanwhile."""
    readings = read(parser, argv, client.output)
    if client.timed_out:
        return LaunchResult(f"timeout: {tool_of(argv)} still ran after its limit", BlamedSide.TIME, readings)
    if client.exit != 0:
        status = (
            _unavailable(readings)
            or not_inside(argv, client.output.err.end())
            or f"failed: {how_it_ended(tool_of(argv), client.exit, client.output)}"
        )
        return LaunchResult(status, BlamedSide.CLIENT, readings)
    bad = next((reading.status for reading in readings if reading.status != OK), None)
    if bad is not None:
        return LaunchResult(bad, BlamedSide.CLIENT, readings)
    if parser != RAW and not readings and not _only_quits(argv):
        reason = _last_printed(client.output) or "it printed nothing"
        if client.output.too_long:
            reason = f"it printed more than the {format_size(READ_BYTES)} in which numbers are looked for"
        return LaunchResult(f"failed: {tool_of(argv)} exited 0 without a result: {reason}", BlamedSide.CLIENT)
    received = _received(argv, client, datagrams)
    if received is not None and received < _NOBODY_RECEIVED:
        status = (
            f"invalid: the server received {received:.1%} of the messages that {tool_of(argv)} counts as sent"
        )
        return LaunchResult(status, BlamedSide.CLIENT, readings, received)
    return LaunchResult(OK, BlamedSide.NONE, readings, received)


def unavailable(parser: str, argv: Sequence[str], ended: ToolEnd) -> str:
    """The status of a tool that its node cannot serve (no RDMA device); empty if it ended otherwise."""
    return _unavailable(read(parser, argv, ended.output)) or not_inside(argv, ended.output.err.end())


def cut(result: LaunchResult, output: Output, blame: BlamedSide, where: str = "") -> LaunchResult:
    """The result of a launch of which a tool's output is not whole: no ``ok``, whatever it was. blame: the
    tool's side; where: words before those of the cut."""
    if not output.cut:
        return result
    if result.status == OK:
        return result._replace(status=f"failed: {where}{output.cut}", blame=blame)
    return result._replace(status=f"{result.status}; {where}{output.cut}")


def _last_printed(output: Output) -> str:
    """The last line that says something, of stderr or else of stdout, without colour codes."""
    lines = (last_line(_COLOUR.sub("", stream.end())) for stream in (output.err, output.out))
    return next(filter(None, lines), "")[:200]


def how_it_ended(tool: str, exit_code: int, output: Output) -> str:
    """A tool's end in words, with the last line that it printed."""
    last = _last_printed(output)
    return f"{tool} {ending(exit_code)}" + (f": {last}" if last else "")


def read(parser: str, argv: Sequence[str], output: Output) -> tuple[Reading, ...]:
    """What the parser reads in stdout with stderr behind it, as ``npc records collect`` will; nothing
    without one or in what is too long."""
    from npc import parsers

    if parser not in parsers.names() or output.too_long:
        return ()
    return tuple(parsers.parse(parser, parsers.joined(output.out.text(), output.err.text()), argv))


def _unavailable(readings: Sequence[Reading]) -> str:
    return next((reading.status for reading in readings if reading.status.startswith("unavailable: ")), "")


def _only_quits(argv: Sequence[str]) -> bool:
    """``qperf HOST quit`` measures nothing, and is right to."""
    return tool_of(argv) == "qperf" and command_of(argv)[2:] == ["quit"]


def _received(argv: Sequence[str], client: ToolEnd, datagrams: int) -> float | None:
    """Of the messages that sockperf's throughput test sent by UDP, the part that the server's host received.

    A bound from above: other datagrams to that host count as well. None for every other test.
    """
    sent = _SENT.search(client.output.out.text()) if tool_of(argv) == "sockperf" else None
    if not sent or "--tcp" in argv or int(sent[1]) == 0:
        return None
    return min(1.0, datagrams / int(sent[1]))
