"""The handshake: agent and coordinator prove to each other that they belong to the same launch.

Anybody may connect to a port, and an address such as 172.17.0.1 may be another host's. So both know a secret
that this launch's MPI has brought them, and neither says it::

    coordinator → agent   nonce
    agent → coordinator   nonce, HMAC-SHA256(secret, "agent", both nonces, the coordinator's address)
    coordinator → agent   HMAC-SHA256(secret, "coordinator", both nonces, the coordinator's address)

Who connects learns nothing before he has proved himself. The address is the one at which this connection
ends, as each side sees it: who stands between and passes on what both say has another.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

SECRET_BYTES: Final = 32
_NONCE: Final = 16
_PROOF: Final = 32


async def admits(secret: bytes, reader: StreamReader, writer: StreamWriter) -> bool:
    """The coordinator's side: whether an agent of this launch has connected. Raises OSError, EOFError."""
    own = os.urandom(_NONCE)
    writer.write(own)
    answer = await reader.readexactly(_NONCE + _PROOF)
    nonces = own + answer[:_NONCE]
    address = writer.get_extra_info("sockname")[0]
    if not hmac.compare_digest(answer[_NONCE:], _proof(secret, b"agent", nonces, address)):
        return False
    writer.write(_proof(secret, b"coordinator", nonces, address))
    return True


def connect(places: Sequence[tuple[str, int]], secret: bytes, limit_s: float = 30.0) -> socket.socket:
    """The agent's side: a connection to the coordinator at whichever of its places (address, port) proves
    itself first.

    All are tried at once: some may be unreachable from here. Raises OSError when none does within the limit.
    """
    deadline = time.monotonic() + limit_s
    trying: list[socket.socket] = []
    expected: dict[socket.socket, bytes] = {}
    try:
        for address, port in places:
            connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            connection.setblocking(False)
            trying.append(connection)
            if connection.connect_ex((address, port)) not in (0, errno.EINPROGRESS):
                trying.pop().close()
        while trying and time.monotonic() < deadline:
            for connection in select.select(trying, [], [], max(0.0, deadline - time.monotonic()))[0]:
                with contextlib.suppress(OSError):
                    if connection not in expected:
                        if challenge := connection.recv(_NONCE):
                            expected[connection] = _answer(connection, secret, challenge)
                            continue
                    elif hmac.compare_digest(connection.recv(_PROOF), expected[connection]):
                        trying.remove(connection)
                        connection.setblocking(True)
                        return connection
                trying.remove(connection)
                connection.close()
    finally:
        for connection in trying:
            connection.close()
    tried = ", ".join(f"{address} port {port}" for address, port in places)
    raise OSError(f"cannot reach npb's first rank at {tried or 'any address'} (a firewall?)")


def _answer(connection: socket.socket, secret: bytes, challenge: bytes) -> bytes:
    """Answer the coordinator's challenge; what it will answer if it is the coordinator."""
    own = os.urandom(_NONCE)
    address = connection.getpeername()[0]
    connection.sendall(own + _proof(secret, b"agent", challenge + own, address))
    return _proof(secret, b"coordinator", challenge + own, address)


def _proof(secret: bytes, whose: bytes, nonces: bytes, address: str) -> bytes:
    return hmac.digest(secret, b"%b %b %b" % (whose, nonces, address.encode()), "sha256")
