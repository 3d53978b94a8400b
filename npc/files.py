"""Files that are whole, or as they were before: what is half written when something fails stays nowhere.

Files of JSON lines are only ever appended to: a crash or a full disk leaves whole lines. In a folder where
others may write, too, a link that waits under a file's name is replaced or refused, never written through.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")
#: Of a line of TOML: a key of more parts takes Python's reader as long as the square of their number.
_LONGEST: Final = 10_000


class InvalidFile(ValueError):
    """A file or folder whose content cannot be used; the message names it and says why. `npc.cli` shows it as
    one line."""


@contextlib.contextmanager
def valid(path: Path) -> Iterator[None]:
    """Makes what is wrong with the content of a file (ValueError) an `InvalidFile` that names it."""
    try:
        yield
    except ValueError as error:
        raise InvalidFile(f"{path}: {error}") from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Gives an error that names no file, as write(2) on a full disk does, the one that was to be written."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


def cannot_write(path: Path, error: OSError, option: str = "--output") -> str:
    """The line for who chose a place that takes no file: what was tried, why it failed, what to do."""
    why = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        folder = path.absolute().parent
        why = f"nothing can be made in {folder}" if folder.exists() else f"there is no folder {folder}"
    return f"cannot write {path}: {why}; choose another place by {option}"


@contextlib.contextmanager
def replacing(path: Path, suffix: str = "") -> Iterator[Path]:
    """A path beside `path` to write to: at the end it takes the place of `path`.

    suffix: its own, that of `path` if empty, since some libraries write what a name's suffix says. `path`
    stays as it was where nothing was written, or an error ends the block. Nobody knows its name before, so no
    link waits there; who opens it himself does so with "x". Raises OSError.
    """
    partial = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{suffix or path.suffix}")
    try:
        yield partial
        if partial.exists():
            partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def write_whole(path: Path, text: str) -> None:
    """Write a text and see it onto the disk; what is no text (a lone surrogate) is written as its escape.

    Meanwhile no other file with the suffix of `path` is there: node_exporter reads all that end in ``.prom``.
    """
    with (
        naming(path),
        replacing(path, f"{path.suffix}.partial") as partial,
        partial.open("x", encoding="utf-8", errors="backslashreplace") as stream,
    ):
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text that others wrote. Raises ValueError, also for what is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def parse_toml(text: str, kind: type[T]) -> T:
    """The value of a TOML text that others wrote. Raises ValueError, also for what is nested too deep, is of
    another kind, or has lines for which Python's reader would take minutes."""
    import msgspec  # most commands read no TOML

    if any(len(line) > _LONGEST for line in text.splitlines()):
        raise ValueError(f"a line of more than {_LONGEST} characters")
    try:
        return msgspec.toml.decode(text, type=kind)
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_json(path: Path) -> Any:
    """The value of a JSON file; None where there is none, or none that could be read."""
    try:
        return parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def read_lines(path: Path) -> Iterator[Any]:
    """The values of all whole lines that are JSON; none of a file that does not exist."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield parse_json(line)
        except ValueError:  # a disk that lost a block, or somebody's editor
            continue


def leads_out(path: Path, *folders: Path) -> bool:
    """Whether a path, by its names or by links, leads to a place in none of these folders."""
    place = path.resolve()
    return not any(place.is_relative_to(folder.resolve()) for folder in folders)


def no_link(path: str, flags: int) -> int:
    """An opener for `open` that refuses a link under this name: OSError."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def append_line(path: Path, value: object) -> None:
    """Append a value as one line of JSON, as `append_lines` does."""
    append_lines(path, json.dumps(value, ensure_ascii=False) + "\n")


def append_lines(path: Path, lines: str, header: str = "") -> None:
    """Append whole lines and see them onto the disk; `header` stands before them in a new file.

    What a writer left that was killed in its line is cut off. Raises OSError as the file system does, and for
    a link; then the whole lines that were there are all that is in the file.
    """
    created = not path.exists()
    with naming(path), open(path, "ab+", buffering=0, opener=no_link) as stream:
        stream.seek(0)
        whole = stream.readall().rfind(b"\n") + 1
        stream.truncate(whole)
        left = memoryview(((header if whole == 0 else "") + lines).encode("utf-8", "backslashreplace"))
        try:
            while left:
                left = left[os.write(stream.fileno(), left) :]
            os.fsync(stream.fileno())
        except OSError:
            stream.truncate(whole)
            raise
    if created:  # its name has to last, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
