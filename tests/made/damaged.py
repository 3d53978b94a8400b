"""Damage of files: any value of JSON, cell of CSV or word for another one, and any bytes.

A case is the same in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

#: Deeper than Python's own readers go, and than any file of ours.
DEEP: Final = 5000
#: What a value may be instead.
ODD: Final[tuple[object, ...]] = (
    None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), "", "x", "x" * 200_000, "\x1b[2J\0",
    "../..", "/", [], {}, [[]], [None], {"": None}, {"x": {"y": [1]}}, "2026-13-41T99:99:99", ["a", 1],
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(items):
        yield value, key
        yield from places(below)


def changed_json(text: str, chance: random.Random) -> str:
    """One value less, or another one."""
    value = json.loads(text)
    found = list(places(value))
    container, key = chance.choice(found)
    if chance.random() < 0.25:
        del container[key]
    elif isinstance(container, dict) and chance.random() < 0.1:
        container[chance.choice(["", "x" * 300, "\x1b[2J"])] = container.pop(key)
    else:
        container[key] = chance.choice(ODD)
    return json.dumps(value)


def changed_line(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    number = chance.randrange(len(lines))
    return "\n".join([*lines[:number], changed_json(lines[number], chance), *lines[number + 1 :], ""])


def changed_words(text: str, chance: random.Random) -> str:
    """A cell of CSV, or a word, is something else."""
    ends = [number for number, letter in enumerate(text) if letter in ',\n ="']
    first, last = sorted(chance.sample(ends, 2))
    first, last = first + 1, min(last, first + 40)
    odd = chance.choice([str(value) for value in ODD])
    return text[:first] + odd + text[last:]


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """A part is lost, is doubled, or is not what it was; or it is nested deep, or one line of a MB."""
    first, last = sorted(chance.randrange(len(data)) for _ in range(2))
    return chance.choice([
        data[:first],
        data[:first] + data[last:],
        data[:last] + data[first:],
        data[:first] + bytes(chance.randrange(256) for _ in range(4)) + data[first + 4 :],
        b"[" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b"a = " + b"[" * DEEP,
        b"[" + b"a." * 100 * DEEP + b"a]",
        b"\n".join([data[:first], b'{"a":' * DEEP, data[first:]]),
        b"x" * 2**20,
        b"",
        b"\n\n",
        data.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + data,
        data.decode("utf-8", "replace").encode("utf-16"),
    ])  # fmt: skip


def changed_number(data: bytes, chance: random.Random) -> bytes:
    """Four or eight bytes are another number, mostly in what stands first and tells how to read the rest."""
    place = chance.randrange(min(len(data), chance.choice([200, 2000, len(data)])) - 8) // 4 * 4
    size = chance.choice([4, 8])
    number = chance.choice([0, 1, *(2**bits - 1 for bits in (16, 31, 32, 63, 64)), chance.getrandbits(64)])
    return data[:place] + (number % 256**size).to_bytes(size, "little") + data[place + size :]


def every_json(text: str, most: int, chance: random.Random) -> Iterator[str]:
    """The text without each of its values in turn, and with each of `ODD` in place of each; of many values,
    `most` by chance."""
    value = json.loads(text)
    found = list(places(value))
    for container, key in chance.sample(found, min(most, len(found))):
        good = container[key]
        for odd in ODD:
            container[key] = odd
            yield json.dumps(value)
        container[key] = good
        if isinstance(container, dict):
            after = list(container.items())
            del container[key]
            yield json.dumps(value)
            container.clear()
            container.update(after)


def damaged(good: bytes, suffix: str, number: int, chance: random.Random) -> bytes:
    """The next damage of a file of a kind: of its bytes where `number` is odd, else of what they mean."""
    if number % 2 or suffix == ".npz":
        return changed_bytes(good, chance)
    if suffix == ".json":
        return changed_json(good.decode(), chance).encode()
    if suffix == ".jsonl":
        return changed_line(good.decode(), chance).encode()
    return changed_words(good.decode(), chance).encode("utf-8", "replace")
