"""What one direction of a transfer tells of itself, and whether its numbers agree: sent, received, lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from npc.records.units import format_quantity
from npc.validity.arithmetic import contradiction, last_digit

#: What may be on its way when a run ends, and what rounding takes: a share of the bytes.
_TOLERANCE: Final = 0.02
#: The rounding of a printed percentage, two digits at least.
_ROUNDING: Final = 0.05
#: Where a counter of 32 bits stands still.
_FULL: Final = 2**31 - 1


@dataclass(frozen=True)
class End:
    """What the sender or the receiver counted."""

    #: B/s.
    rate: float
    #: Bytes; None where they are not told.
    moved: float | None = None
    #: How long it took, in s; None where it is not told.
    seconds: float | None = None
    #: One step of the last printed digit of the rate, in B/s; 0 where it is exact.
    rate_step: float = 0.0
    #: One step of the last printed digit of the time, in s; 0 where it is exact.
    time_step: float = 0.0

    @property
    def contradiction(self) -> str:
        """What is wrong with rate, bytes and time; empty if they agree."""
        if self.moved is None or self.seconds is None or not self.rate:
            return ""
        return contradiction(self.rate, self.moved, self.seconds, self.rate_step, self.time_step)


@dataclass(frozen=True)
class Loss:
    """Datagrams that did not arrive, as the receiver counted them by their numbers."""

    #: Datagrams, below 0 where the counter is wrong; None where they are not told.
    lost: int | None
    #: Datagrams that were sent until the last that arrived; None where they are not told.
    sent: int | None
    #: The printed percentage; empty where there is none.
    percent: str
    #: All datagrams that the sender counted; None where they are not told.
    all_sent: int | None = None

    @property
    def share(self) -> float | None:
        """The part that was lost; None where it cannot be told."""
        if self.lost is not None and self.sent:
            return self.lost / self.sent
        return float(self.percent) / 100 if self.percent and self.lost is None else None

    @property
    def contradiction(self) -> str:
        """What is wrong with these numbers among themselves; empty if they agree."""
        share = self.share
        if share is None:
            return ""
        if share < 0:
            return f"a negative loss is printed: {self._counts}"
        if share > 1:
            return f"more was lost than was sent: {self._counts}"
        if self.sent == _FULL:
            return f"the counter of datagrams stands still at {_FULL}"
        if not self.percent or self.lost is None:
            return ""
        shares = [100 * self.lost / total for total in (self.sent, self.all_sent) if total]
        if any(abs(percent - float(self.percent)) <= _ROUNDING * percent for percent in shares):
            return ""
        return (
            f"{self._counts} are lost, which are {shares[0]:.2g} %, and {float(self.percent):g} % is printed"
        )

    @property
    def _counts(self) -> str:
        if self.lost is None:
            return f"{float(self.percent):g} %"
        return f"{self.lost} of {self.sent} datagrams"


@dataclass(frozen=True)
class Direction:
    """The summary of one direction."""

    #: What the sender counted; None where it is not told.
    sent: End | None = None
    #: What the receiver counted; None where it is not told.
    received: End | None = None
    #: TCP segments that were sent again; None where they are not told.
    retransmits: float | None = None
    #: How much the time on the way varies, in s; None where it is not told.
    jitter: float | None = None
    #: Datagrams that did not arrive; None where they are not told.
    loss: Loss | None = None
    #: Bytes that the intervals of the run have together, by the end that printed them; 0 where not told.
    in_intervals: dict[str, float] = field(default_factory=dict)

    @property
    def contradiction(self) -> str:
        """Why none of its rates can be believed; empty if nothing tells so."""
        for name, end in (("sent", self.sent), ("received", self.received)):
            if end is None:
                continue
            if end.contradiction:
                return end.contradiction
            counted = self.in_intervals.get(name)
            if counted and end.moved and abs(counted - end.moved) > _TOLERANCE * end.moved:
                return (
                    f"{_bytes(counted)} were {name} in the intervals, and {_bytes(end.moved)} by the summary"
                )
        sent, received = self._moved
        if sent and received > sent * (1 + _TOLERANCE):
            return f"{_bytes(received)} were received, but only {_bytes(sent)} sent"
        return ""

    @property
    def loss_contradiction(self) -> str:
        """What is wrong with the loss; empty if it agrees with datagrams and bytes."""
        if self.loss is None or self.loss.share is None:
            return ""
        if wrong := self.loss.contradiction:
            return wrong
        sent, received = self._moved
        if sent and received and abs(sent * (1 - self.loss.share) - received) > _TOLERANCE * sent:
            return (
                f"{1 - received / sent:.1%} of the bytes that were sent did not arrive, "
                f"and a loss of {self.loss.share:.1%} is printed"
            )
        return ""

    @property
    def _moved(self) -> tuple[float, float]:
        """Bytes sent and received; 0 where they are not told."""
        ends = (self.sent, self.received)
        sent, received = ((end.moved or 0.0) if end else 0.0 for end in ends)
        return sent, received


def _bytes(amount: float) -> str:
    return format_quantity(amount, "B")


def printed_end(rate: str, rate_unit: float, moved: float, seconds: str) -> End:
    """The end of a printed row; rate_unit: B/s of one; moved: bytes; seconds: s."""
    return End(
        float(rate) * rate_unit, moved, float(seconds), last_digit(rate) * rate_unit, last_digit(seconds)
    )
