"""The calls of MPI: `calls.toml` in all forms that MPI gives them (MPI_X, MPI_Ix, MPI_X_init, MPI_X_c, …)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

TABLE: Final = Path(__file__).with_name("calls.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One function of MPI."""

    #: As in the manual: ``MPI_Allreduce_c``.
    name: str
    #: The name that its calls are counted under: ``MPI_Allreduce``.
    counted: str
    #: As in the table: ``plain``, ``I``, ``init``, ``split``.
    form: str
    #: Argument → its type in C, in the order of the manual.
    args: Mapping[str, str]
    #: What the table says of it: ``does``, ``send``, ``bytes``, … → text, as `calls.toml` explains.
    roles: Mapping[str, str]

    def does(self, what: str) -> bool:
        return what in self.roles.get("does", "").split()


def read_calls(table: Path = TABLE) -> list[Call]:
    """All calls of the table in all their forms, by name."""
    sections = msgspec.toml.decode(table.read_bytes())
    groups: dict[str, str] = sections.pop("groups")
    types = {name: of_type for of_type, names in sections.pop("types").items() for name in names.split()}
    calls: list[Call] = []
    for section, rows in sections.items():
        for names, row in rows.items():
            words = " ".join(groups.get(word, word) for word in row["args"].split()).split()
            forms = row.get("forms", "plain I init" if section == "collective" else "plain").split()
            roles = {key: text for key, text in row.items() if key not in ("args", "forms")}
            if section == "collective":
                roles["does"] = "collective"
            for name in names.split():
                for form in forms:
                    for formed, args in _forms(name, form, words, with_info=section == "collective"):
                        calls += _sizes(formed, form, args, types, roles)
    return sorted(calls, key=lambda call: call.name)


def _forms(name: str, form: str, args: list[str], *, with_info: bool) -> Iterator[tuple[str, list[str]]]:
    """Names and arguments of a form of a call (two of a split one)."""
    asking = [arg for arg in args if arg != "status"]
    if form == "plain":
        yield name, args
    elif form == "init":
        yield f"{name}_init", [*asking, *(["info"] if with_info else []), "request"]
    elif form == "split":
        yield f"{name}_begin", [arg for arg in asking if arg != "flag"]
        yield f"{name}_end", [arg for arg in args if arg in ("fh", "buf", "sendbuf", "status")]
    else:
        stem = re.match(r"MPI_(File_|Comm_)?", name)
        assert stem is not None
        rest = name[stem.end() :]
        first = form if stem[0] == "MPI_" else form.lower()
        yield f"{stem[0]}{first}{rest[0].lower()}{rest[1:]}", [*asking, "request"]


def _sizes(
    name: str, form: str, args: list[str], types: Mapping[str, str], roles: Mapping[str, str]
) -> Iterator[Call]:
    """A call with int counts and, where it has counts, with large ones."""
    of_type = {arg: types.get(arg, "int") for arg in args}
    large = any(re.search(r"\b(Count|Displ)\b", text) for text in of_type.values())
    for end, count, displacement in (("", "int", "int"), ("_c", "MPI_Count", "MPI_Aint"))[: 1 + large]:
        sized = {
            arg: re.sub(r"\bDispl\b", displacement, re.sub(r"\bCount\b", count, text))
            for arg, text in of_type.items()
        }
        yield Call(name=name + end, counted=name, form=form, args=sized, roles=roles)
