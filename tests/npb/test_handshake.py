"""Who may come to npb's coordinator, and whom an agent believes to be it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from npc.npb.addresses import reached_at
from npc.npb.handshake import SECRET_BYTES, connect
from npc.npb.interfaces import Address, HostView
from npc.npb.messages import encode
from npc.npb.nodes import AgentReception, Node

LO = Address("lo", "127.0.0.1", 8)
DOCKER = Address("docker0", "172.17.0.1", 16)
SECRET = os.urandom(SECRET_BYTES)
VIEWS = [HostView("a", "a", (LO,))] * 2


def host(name: str, *addresses: str) -> HostView:
    return HostView(name, name, (LO, DOCKER, *(Address("eth0", address, 24) for address in addresses)))


@pytest.mark.parametrize(
    ("others", "addresses"),
    [
        ([host("a", "10.0.0.1", "10.1.0.1")], ["127.0.0.1"]),
        ([host("a"), host("b", "10.0.0.2")], ["10.0.0.1"]),
        ([host("b", "10.0.0.2"), host("c", "10.1.0.3")], ["10.0.0.1", "10.1.0.1"]),
        ([host("b", "10.9.0.2")], ["10.0.0.1", "10.1.0.1"]),  # by a router
    ],
)
def test_the_coordinator_listens_where_agents_come_and_nowhere_else(
    others: list[HostView], addresses: list[str]
) -> None:
    assert reached_at(host("a", "10.0.0.1", "10.1.0.1"), others) == addresses


@pytest.fixture
def reception() -> Iterator[tuple[tuple[str, int], Callable[[], dict[int, Node]]]]:
    """Where a coordinator waits for an agent, its own having come; and what it has let in, at the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    ours, theirs = socket.socketpair()
    ours.sendall(b"go\n" + encode({"event": "hello", "rank": 0, "cpus": [0], "port": 1}))
    let_in: dict[int, Node] = {}

    async def receive() -> None:
        let_in.update(await AgentReception(VIEWS, SECRET, lambda _: None).gather([listener], theirs, 5.0))

    thread = threading.Thread(target=lambda: asyncio.run(receive()))
    thread.start()

    def ended() -> dict[int, Node]:
        thread.join()
        return let_in

    yield listener.getsockname(), ended
    with contextlib.suppress(OSError):
        say_hello(connect([listener.getsockname()], SECRET, 1.0))
    thread.join()
    ours.close()


def say_hello(agent: socket.socket) -> None:
    agent.sendall(encode({"event": "hello", "rank": 1, "cpus": [0], "port": 1}))
    assert agent.recv(1) == b""  # the coordinator has ended
    agent.close()


def test_an_agent_comes_in_and_then_the_door_is_shut(
    reception: tuple[tuple[str, int], Callable[[], dict[int, Node]]],
) -> None:
    place, ended = reception
    with socket.create_connection(place) as stranger:
        assert len(stranger.recv(100)) == 16
        say_hello(connect([("127.0.0.1", 1), place], SECRET))
        assert sorted(ended()) == [0, 1]
        assert stranger.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place)


@pytest.mark.parametrize("kind", ["without the secret", "with what an agent said before", "silent"])
def test_a_stranger_learns_nothing_and_is_sent_away(
    reception: tuple[tuple[str, int], Callable[[], dict[int, Node]]], kind: str
) -> None:
    place, ended = reception
    with socket.create_connection(place) as stranger:
        challenge = stranger.recv(100)
        assert len(challenge) == 16
        if kind != "silent":
            key, nonce = (os.urandom(32), challenge) if kind == "without the secret" else (SECRET, bytes(16))
            own = os.urandom(16)
            proof = hmac.digest(key, b"agent " + nonce + own + b" 127.0.0.1", "sha256")
            stranger.sendall(own + proof + encode({"event": "hello", "rank": 1, "cpus": [0], "port": 1}))
            assert stranger.recv(100) == b""
    with pytest.raises(OSError, match="cannot reach"):  # nor is an agent of another launch let in
        connect([place], os.urandom(SECRET_BYTES), 0.5)
    say_hello(connect([place], SECRET))
    assert sorted(ended()) == [0, 1]


def test_an_agent_does_not_take_who_passes_on_the_coordinators_words_for_it(
    reception: tuple[tuple[str, int], Callable[[], dict[int, Node]]],
) -> None:
    place, _ = reception
    between = socket.create_server(("127.0.0.2", 0))

    def pass_on() -> None:
        agent, _ = between.accept()
        with socket.create_connection(place) as coordinator, agent:
            agent.sendall(coordinator.recv(100))
            coordinator.sendall(agent.recv(100))
            agent.sendall(coordinator.recv(100))

    thread = threading.Thread(target=pass_on)
    thread.start()
    with between, pytest.raises(OSError, match="cannot reach"):
        connect([between.getsockname()], SECRET, 2.0)
    thread.join()
