"""What the agents and the coordinator say to each other: JSON lines, some followed by raw bytes.

A message is one line of JSON; its key ``payload`` tells how many bytes follow that line as they are
(a tool's output is not text, and must not change on its way).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

#: A line longer than this is not ours; command lines and address lists stay far below.
MAX_LINE_BYTES: Final = 8 * 2**20
#: A tool's output goes in pieces of this size at most, so that neither side holds much of it in memory.
MAX_PAYLOAD_BYTES: Final = 2**18


class BadMessage(ValueError):
    """The peer does not speak this protocol."""


def encode(message: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """The bytes of one message."""
    return json.dumps({**message, "payload": len(payload)}).encode() + b"\n" + payload


class Decoder:
    """Cuts a stream of bytes into messages, however the network cut it."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._message: dict[str, Any] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The messages, each with its payload, that `data` completes. Raises `BadMessage`."""
        self._buffer += data
        while True:
            if self._message is None:
                end = self._buffer.find(b"\n")
                if end < 0:
                    if len(self._buffer) > MAX_LINE_BYTES:
                        raise BadMessage("a line without an end")
                    return
                self._message = _parse(bytes(self._buffer[:end]))
                del self._buffer[: end + 1]
            size = self._message["payload"]
            if len(self._buffer) < size:
                return
            payload = bytes(self._buffer[:size])
            del self._buffer[:size]
            message, self._message = self._message, None
            yield message, payload


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        raise BadMessage(f"not JSON: {line[:80]!r}") from None
    size = message.get("payload") if isinstance(message, dict) else None
    if not isinstance(size, int) or not 0 <= size <= MAX_PAYLOAD_BYTES:
        raise BadMessage(f"not a message: {line[:80]!r}")
    return message
