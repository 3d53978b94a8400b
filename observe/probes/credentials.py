"""Who is at the other end of a socket of this node. Only the standard library, as in `npc.observe.rank`."""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple

#: struct ucred (unix(7)).
_CREDENTIALS: Final = struct.Struct("iII")


class PeerProcess(NamedTuple):
    """Who has connected, or who listens."""

    #: Its PID.
    process: int
    #: The number of its effective user.
    user: int


def peer(connection: socket.socket) -> PeerProcess:
    """By the kernel's word (SO_PEERCRED), which nobody can forge. Raises OSError."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _group = _CREDENTIALS.unpack(credentials)
    return PeerProcess(process, user)
