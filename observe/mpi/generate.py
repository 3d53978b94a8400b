"""Generates wrappers around the calls of MPI, in C, from the table `calls.toml`.

Each call gets two functions, MPI_X and PMPI_X. They call the function of the same name in the next library
and tell the runtime (library/runtime.h) what the arguments mean. PMPI_X is needed because Open MPI's three
Fortran interfaces call it, as do other profiling libraries that are loaded before this one; so Fortran needs
no wrappers of its own. Only the outermost call counts, not what it calls inside.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from npc.observe.mpi.calls import Call, read_calls

#: Functions of MPI that wrappers, roles.c and runtime.h's inline functions call themselves.
CALLED: Final = (
    "Cart_shift",
    "Cartdim_get",
    "Comm_rank",
    "Comm_size",
    "Comm_test_inter",
    "Dist_graph_neighbors_count",
    "Graph_neighbors_count",
    "Query_thread",
    "Topo_test",
    "Type_size",
)


def sources(declared: Collection[str]) -> dict[str, str]:
    """calls.h, calls.c and wrappers.c for an MPI whose mpi.h declares these functions."""
    calls = [call for call in read_calls() if call.name in declared]
    counted = sorted({call.counted for call in calls})
    weak = "".join(f"#pragma weak PMPI_{name}\n" for name in CALLED)
    ids = "".join(f"    NPC_{name},\n" for name in counted)
    texts = "".join(f'    "{name}",\n' for name in counted)
    return {
        "calls.h": f"{_GENERATED}{weak}\nenum npc_call {{\n{ids}    NPC_CALLS\n}};\n"
        "extern const char *const npc_call_names[] __attribute__((visibility(\"hidden\")));\n",
        "calls.c": f'{_GENERATED}#include "calls.h"\n\nconst char *const npc_call_names[] = {{\n{texts}}};\n',
        "wrappers.c": f'{_GENERATED}#include "roles.h"\n#include <stdarg.h>\n\n'
        + "\n".join(map(_wrapper, calls)),
    }  # fmt: skip


_GENERATED: Final = "/* Made by observe/mpi/generate.py from calls.toml. */\n"


def _wrapper(call: Call) -> str:
    """The wrapper of a call, and its two names for the linker."""
    name = call.name
    handles = {arg: of_type for arg, of_type in call.args.items() if of_type in _HANDLES}
    args = {f"{arg}_" if arg in handles else arg: _as_passed(text) for arg, text in call.args.items()}
    declared = [_declared(of_type, arg) for arg, of_type in args.items()]
    passed = ", ".join(args)
    lines = _VARIADIC if call.does("pcontrol") else _body(call, f"call({passed})")
    lines = [
        *(
            f"{of_type} {arg} __attribute__((unused)) = ({of_type}){arg}_;"
            for arg, of_type in handles.items()
        ),
        *lines,
    ]
    if call.does("pcontrol"):  # of the variable arguments after the level one pointer can be passed on
        declared, passed = ["int level", "const void *region"], "level, region"
    entries = "".join(
        _entry(call, prefix, declared, ", ".join(filter(None, (passed, str(profiled)))))
        for profiled, prefix in enumerate(("", "P"))
    )
    types = "int, ..." if call.does("pcontrol") else ", ".join(args.values()) or "void"
    return (
        f"typedef int npc_type_{name}({types});\n"
        f"static int npc_wrap_{name}({', '.join([*declared, 'int profiled'])})\n"
        "{\n    static void *next[2];\n"
        f'    npc_type_{name} *call = (npc_type_{name} *)npc_next(&next[profiled], &"P{name}"[!profiled]);\n'
        + "".join(f"    {line}\n" for line in lines)
        + "}\n"
        + entries
    )


def _entry(call: Call, prefix: str, declared: list[str], passed: str) -> str:
    """MPI_X or PMPI_X. In C it has another name, so its declaration may differ from mpi.h's in const."""
    function, body = f"npc_{prefix}{call.name}", [f"return npc_wrap_{call.name}({passed});"]
    if call.does("pcontrol"):
        declared, body = ["int level", "..."], [*_REGION, *body]
    signature = f"int {function}({', '.join(declared) or 'void'})"
    return (
        f'{signature} __asm__("{prefix}{call.name}") __attribute__((visibility("default")));\n'
        f"{signature}\n{{\n" + "".join(f"    {line}\n" for line in body) + "}\n"
    )


def _as_passed(of_type: str) -> str:
    """The type in which an argument is passed on: of a handle, a whole register. If the program has another
    MPI than the library was built for, an int (MPICH's handles) would cut off half of a pointer (Open
    MPI's)."""
    return "uintptr_t" if of_type in _HANDLES else of_type


#: Types of handles; MPI_File is a pointer everywhere.
_HANDLES: Final = frozenset(
    f"MPI_{name}"
    for name in (
        "Comm",
        "Datatype",
        "Errhandler",
        "Group",
        "Info",
        "Message",
        "Op",
        "Request",
        "Session",
        "Win",
    )
)


def _declared(of_type: str, name: str) -> str:
    return f"{of_type}{'' if of_type.endswith('*') else ' '}{name}"


_REGION: Final = [
    "va_list rest;",
    "va_start(rest, level);",
    "const void *region = va_arg(rest, void *);",
    "va_end(rest);",
]
_VARIADIC: Final = ["npc_pcontrol(level, region);", "return call(level, region);"]


def _body(call: Call, going_on: str) -> list[str]:
    """What a wrapper does, line by line."""
    if call.does("initialise"):
        return [
            f"int code = {going_on}, level = MPI_THREAD_SINGLE;",
            "if (code == MPI_SUCCESS) {",
            "    PMPI_Query_thread(&level);",
            "    npc_initialized(level);",
            "}",
            "return code;",
        ]
    if call.does("finalise"):
        return ["npc_finalizing();", f"return {going_on};"]
    if call.does("abort"):
        return ["if (npc_aborting)", "    npc_aborting();", f"return {going_on};"]
    return [
        *_places(call),
        *(["npc_session();"] * call.does("session")),
        f"npc_thread *self = npc_enter(NPC_{call.counted});",
        *_before(call),
        f"int code = {going_on};",
        "if (npc_leave(self, code)) {",
        *(f"    {line}" for line in _after(call)),
        "}",
        "return code;",
    ]


def _completes(call: Call) -> bool:
    """Whether its status says how many bytes it received."""
    return "status" in call.args and (
        call.does("complete") or call.does("match") or any(key in call.roles for key in ("receive", "read"))
    )


def _places(call: Call) -> list[str]:
    """Variables: for the status where the program passes none, for the request's value before the call."""
    single = call.does("complete") and "request" in call.args
    return [*(["MPI_Status own;"] * _completes(call)), *(["MPI_Request was = *request;"] * single)]


def _before(call: Call) -> list[str]:
    lines = []
    if _completes(call):
        lines.append("status = npc_status(self, status, &own);")
    if call.does("complete") and "incount" in call.args:
        lines.append("const MPI_Request *was = npc_requests(self, incount, array_of_requests);")
        if "array_of_statuses" in call.args:
            lines.append("array_of_statuses = npc_statuses(self, incount, array_of_statuses);")
    for what, line in _ENDING.items():
        if call.does(what):
            lines.append(line)
    return lines


#: Lines before calls that free a handle, which is invalid afterwards.
_ENDING: Final = {
    "free_comm": "npc_comm_freed(self, *freed_comm);",
    "free_win": "npc_win_freed(self, *freed_win);",
    "free_file": "npc_file_freed(self, *freed_file);",
    "free_request": "npc_request_freed(self, *request);",
    "cancel": "npc_request_cancelled(self, *request);",
}


def _after(call: Call) -> list[str]:
    """Lines that tell the runtime about a call that succeeded; the last one ends the counting."""
    if call.does("complete"):
        return [_completed(call)]
    if call.does("start"):
        requests = "incount, array_of_requests" if "incount" in call.args else "1, request"
        return [f"npc_count_started(self, {requests});"]
    place, size = _place(call), "0"
    lines = [f"npc_index on = {place};"] if place else []
    on = "on" if place else "NPC_NONE"
    if "bytes" in call.roles:
        lines += _collective_bytes(call)
        size = "bytes"
    elif any(key in call.roles for key in ("send", "receive", "put", "get", "read", "write")):
        moved, size = _moved(call, on)
        lines += moved
    lines += _made(call, on)
    if call.does("collective") and call.form != "split":
        lines.append(_collective(call, on))
        if call.form == "init" and size == "bytes":
            size = "0"  # MPI_Start counts them
    return [*lines, f"npc_count(self, {on}, {size});"]


def _place(call: Call) -> str | None:
    """The communicator, window or file that a call is counted under."""
    for arg, place in {"comm": "comm", "win": "win", "fh": "file"}.items():
        if arg in call.args:
            return f"npc_{place}(self, {arg})"
    return None


def _completed(call: Call) -> str:
    statuses = "array_of_statuses" if "array_of_statuses" in call.args else "status"
    if "outcount" in call.args:
        return f"npc_count_completed(self, *outcount, array_of_indices, was, {statuses});"
    if "indx" in call.args:
        number = "*flag && *indx != MPI_UNDEFINED" if "flag" in call.args else "*indx != MPI_UNDEFINED"
        return f"npc_count_completed(self, {number}, indx, was, {statuses});"
    n, was = ("incount", "was") if "incount" in call.args else ("1", "&was")
    n = f"*flag ? {n} : 0" if "flag" in call.args else n
    return f"npc_count_completed(self, {n}, NULL, {was}, {statuses});"


def _bytes(text: str) -> str:
    """``count*datatype`` as bytes, in C; there may be several counts."""
    *counts, datatype = text.split("*")
    return f"npc_bytes({' * '.join(f'(uint64_t){count}' for count in counts)}, {datatype})"


def _moved(call: Call, on: str) -> tuple[list[str], str]:
    """Lines that tell the runtime which bytes go where, and the expression of those that count for the
    call."""
    lines, counted = [], []
    send_tag, receive_tag = ("sendtag", "recvtag") if "sendtag" in call.args else ("tag", "tag")
    started = call.form == "init" or call.name.endswith(("_init", "_init_c"))
    roles, partitioned = call.roles, "partitions" in call.args
    if "send" in roles:
        lines.append(f"uint64_t sent = dest == MPI_PROC_NULL ? 0 : {_bytes(roles['send'])};")
        if partitioned:
            lines.append(f"npc_psend_init(self, *request, {on}, dest, sent);")
        elif started:
            lines.append(f"npc_send_init(self, *request, {on}, dest, tag, sent);")
        else:
            lines.append(f"npc_sent(self, {on}, dest, {send_tag}, sent);")
            counted.append("sent")
    if "receive" in roles:
        if partitioned:
            lines.append(f"npc_precv_init(self, *request, {on}, source, {_bytes(roles['receive'])});")
        elif started:
            lines.append(f"npc_recv_init(self, *request, {on}, source, {receive_tag});")
        elif "request" in call.args and "message" in call.args:
            lines.append("npc_imrecv(self, *request);")
        elif "request" in call.args:
            lines.append(f"npc_irecv(self, *request, {on}, source, {receive_tag});")
        elif "message" in call.args:
            counted.append("npc_status_bytes(status)")
        else:
            counted.append(f"npc_received(self, {on}, status)")
    for way in ("put", "get"):
        if way in roles:
            lines.append(f"uint64_t {way} = target_rank == MPI_PROC_NULL ? 0 : {_bytes(roles[way])};")
            lines.append(f"npc_{way}(self, {on}, target_rank, {way});")
            counted.append(way)
    if "read" in roles and "status" in call.args and call.form == "plain":
        counted.append("npc_status_bytes(status)")
    elif ("read" in roles or "write" in roles) and "count" in call.args:
        counted.append(_bytes(roles.get("read") or roles["write"]))
    return lines, " + ".join(counted) or "0"


def _made(call: Call, on: str) -> list[str]:
    """New communicators, windows, files and matched messages."""
    if call.does("new_comm"):
        if "request" in call.args:
            return [f"npc_comm_idup(self, *request, {on}, newcomm);"]
        return ["npc_comm_made(self, *newcomm);"]
    if call.does("new_win"):
        return ["npc_win_made(self, *newwin);"]
    if call.does("new_file"):
        return ["npc_file_made(self, *newfile);"]
    if call.does("match"):
        condition = "if (*flag)\n            " if "flag" in call.args else ""
        return [f"{condition}npc_matched(self, {on}, status);"]
    return []


def _collective(call: Call, on: str) -> str:
    root = "root" if "root" in call.args else "NPC_NO_ROOT"
    if call.form == "init":
        return f"npc_collective_init(self, *request, {on}, {root}, bytes);"
    if "request" in call.args:
        return f"npc_icollective(self, *request, {on}, {root});"
    return f"npc_collective(self, {on}, {root});"


def _collective_bytes(call: Call) -> list[str]:
    """Lines that compute `bytes` of a collective call, by this rank's role in it."""
    roles = call.roles
    usual = _summed(call, roles["bytes"])
    if "in_place" in roles and "root" not in call.args:
        usual = f"sendbuf == MPI_IN_PLACE ? {_summed(call, roles['in_place'])} : {usual}"
    if "root" not in call.args:
        return [f"uint64_t bytes = {usual};"]
    if roles.get("root") == roles["bytes"]:
        return [f"uint64_t bytes = root == MPI_PROC_NULL ? 0 : {usual};"]
    cases = []
    if "root" in roles:
        cases.append(f"role == NPC_ROOT || role == NPC_REMOTE_ROOT ? {_summed(call, roles['root'])}")
    if "remote_root" in roles:
        cases.append(f"role == NPC_REMOTE_ROOT ? {_summed(call, roles['remote_root'])}")
    if "in_place" in roles:
        cases.append(f"role == NPC_ROOT && sendbuf == MPI_IN_PLACE ? {_summed(call, roles['in_place'])}")
    return [
        "enum npc_role role = npc_role(comm, root);",
        "uint64_t bytes = role == NPC_OUTSIDE ? 0",
        *(f"    : {case}" for case in cases),
        f"    : {usual};",
    ]


def _summed(call: Call, text: str) -> str:
    """The bytes as an expression in C, where counts may be arrays over ranks."""
    if text == "0":
        return text
    over = call.roles.get("over", "peers")
    members = {
        "peers": "npc_size(on)",
        "local": "npc_local_size(comm)",
        "neighbours": "npc_neighbours(comm)",
    }[over]
    *counts, datatype = text.split("*")
    if counts[0].startswith("own("):
        return f"npc_bytes((uint64_t){counts[0][4:-1]}[npc_own_rank(comm)], {datatype})"
    if counts[0] == "members":
        number = f"NPC_SUM(i, {members}, npc_is_neighbour(comm, i))" if over == "neighbours" else members
        return f"npc_bytes((uint64_t){number} * (uint64_t){counts[1]}, {datatype})"
    if not counts[0].endswith("s"):
        return _bytes(text)
    element = f"{counts[0]}[i]" if over != "neighbours" else f"npc_is_neighbour(comm, i) ? {counts[0]}[i] : 0"
    if datatype.endswith("s"):
        element = f"npc_bytes((uint64_t)({element}), {datatype}[i])"
        return f"NPC_SUM(i, {members}, {element})"
    return f"npc_bytes(NPC_SUM(i, {members}, {element}), {datatype})"
