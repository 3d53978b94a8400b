"""Files that are whole, or as they were before: what is half written when something fails stays nowhere.

Files of JSON lines are only ever appended to: a crash or a full disk leaves whole lines. In a folder where
others may write, too, a link that waits under a file's name is replaced or refused, never written through.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

T = TypeVar("T")
#: Of a line of TOML: a key of more parts takes Python's reader as long as the square of their number.
_LONGEST: Final = 10_000

#: Bytes of a document or a text, which is read as a whole, at most; outputs of a run are a few hundred kB.
LARGEST_DOCUMENT: Final = 2**28
#: The same of what has a row a measurement, an event or an access: a million records have a third of a GB.
LARGEST_TABLE: Final = 2**31
#: Of a whole number of 64 bits, with its sign.
_DIGITS: Final = 20
_BLOCK: Final = 2**20
#: What shells call a pipe that they opened themselves, as for ``<(zcat FILE)``.
_OPENED: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


class InvalidFile(ValueError):
    """A file or folder whose content cannot be used; the message names it and says why. `npc.cli` shows it as
    one line."""


def open_regular(path: Path, most: float = LARGEST_DOCUMENT) -> IO[bytes]:
    """Opens a file that others may have put there, to read its bytes.

    Whatever is read from outside is opened here, so that nobody waits for a pipe and nobody's memory is
    filled. Raises OSError for a pipe, a device, a socket or a folder, also behind a link, and for a file of
    more than `most` bytes.
    """
    _see_regular(path, path.stat(), most)  # before it is opened, which alone may move a device
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _see_regular(path, os.fstat(descriptor), most)  # another file may have taken its place
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most: float = LARGEST_DOCUMENT) -> bytes:
    """All of a file that others may have put there. Raises OSError as `open_regular` does."""
    with open_regular(path, most) as stream:
        return _all_of(stream, str(path), most)


def read_text(path: Path, errors: str = "strict") -> str:
    """The same as text in UTF-8, with line ends as Python has them; errors: as of `bytes.decode`.

    Raises OSError, and `InvalidFile` for what is no such text.
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path}: no text in UTF-8: {error.reason} at byte {error.start}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_end(path: Path, most: int = 2**16) -> str:
    """The last `most` bytes of a log, however long it is, as text. Raises OSError as `open_regular` does."""
    with open_regular(path, math.inf) as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - most))
        return stream.read(most).decode(errors="replace")


def read_input(name: str) -> bytes:
    """All of standard input (``-``), of a pipe that the shell opened (``<(zcat FILE)``), or of a file.

    Raises OSError as `open_regular` does, and for more than `LARGEST_DOCUMENT` bytes.
    """
    if name == "-":
        return _all_of(sys.stdin.buffer, "standard input", LARGEST_DOCUMENT)
    if name.startswith(_OPENED):
        with Path(name).open("rb") as stream:
            return _all_of(stream, name, LARGEST_DOCUMENT)
    return read_bytes(Path(name))


def _see_regular(path: Path, state: os.stat_result, most: float) -> None:
    """Raises OSError for what `open_regular` refuses."""
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(state.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(state.st_mode), "a device")
        raise OSError(errno.EINVAL, f"{kind}, and no regular file", str(path))
    if state.st_size > most:
        raise _too_large(str(path), most)


def _too_large(name: str, most: float) -> OSError:
    return OSError(errno.EFBIG, f"more than {most / 2**20:.0f} MiB, the most that is read", name)


def _all_of(stream: IO[bytes], name: str, most: float) -> bytes:
    """What a stream has. Raises OSError where that is more than `most` bytes: it may grow, or never end."""
    content = bytearray()
    while block := stream.read(_BLOCK):
        content += block
        if len(content) > most:
            raise _too_large(name, most)
    return bytes(content)


@contextlib.contextmanager
def valid(path: Path) -> Iterator[None]:
    """Makes what is wrong with the content of a file (ValueError) an `InvalidFile` that names it, or the file
    that it includes."""
    try:
        yield
    except InvalidFile:
        raise
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
    partial = path.with_name(f".{path.stem}.{os.urandom(8).hex()}{suffix or path.suffix}")
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


def copy(source: Path, target: Path) -> None:
    """Make `target` a copy of the content of `source`."""
    with replacing(target) as partial, partial.open("xb") as stream:
        stream.write(read_bytes(source))


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text that others wrote.

    Raises ValueError, also for what is nested too deep, and for numbers that no file has: NaN, infinity,
    whole ones beyond 64 bits.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _whole(digits: str) -> int:
    if len(digits) <= _DIGITS and -(2**63) <= (number := int(digits)) < 2**64:
        return number
    raise ValueError(f"a number of {len(digits)} digits: {digits[:24]}…")


def _finite(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    raise ValueError(f"{text[:24]} is no number")


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


def parse_xml(text: str | bytes) -> Element:
    """The root of an XML text that others wrote. Raises ValueError, also for one that declares entities: a
    few of them in one another stand for gigabytes."""
    import xml.etree.ElementTree as ET  # most commands read no XML
    from xml.parsers import expat

    def refuse(name: str, *_: object) -> None:
        raise ValueError(f"it declares an XML entity ({name}), which NPC does not read")

    declarations = expat.ParserCreate()
    declarations.EntityDeclHandler = refuse
    try:
        declarations.Parse(text, True)
        return ET.fromstring(text)
    except (expat.ExpatError, ET.ParseError, LookupError) as error:  # an encoding that Python has not
        raise ValueError(str(error)) from None


def read_json(path: Path) -> Any:
    """The value of a JSON file; None where there is none, or none that could be read."""
    try:
        return parse_json(read_bytes(path))
    except (OSError, ValueError):
        return None


def read_lines(path: Path, start: int = 0) -> tuple[list[Any], int]:
    """The values of all whole lines from byte `start` on that are JSON, and the byte behind them: where to
    read on when the file has grown."""
    try:
        with open_regular(path, LARGEST_TABLE) as stream:
            stream.seek(start)
            text = _all_of(stream, str(path), LARGEST_TABLE)
    except FileNotFoundError:
        return [], 0
    values = []
    for line in text.split(b"\n")[:-1]:
        try:
            values.append(parse_json(line))
        except ValueError:  # a disk that lost a block, or somebody's editor
            continue
    return values, start + text.rfind(b"\n") + 1


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
