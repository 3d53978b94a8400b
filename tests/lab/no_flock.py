"""A file system without locks: what programs get to hear on Lustre mounted without ``flock``.

A small library that is loaded before the C library answers flock(2) and the locks of fcntl(2) with ENOSYS,
so that whole commands run as they do there, with the shell scripts and SQLite among them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#undef fcntl
#undef fcntl64

int flock(int fd, int operation) { errno = ENOSYS; return -1; }

static int locks_fail(const char *name, int fd, int cmd, void *argument)
{
    if (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK) {
        errno = ENOSYS;
        return -1;
    }
    return ((int (*)(int, int, void *))dlsym(RTLD_NEXT, name))(fd, cmd, argument);
}

#define PASS(name)                                                                                      \
    int name(int fd, int cmd, ...)                                                                      \
    {                                                                                                   \
        va_list rest;                                                                                   \
        va_start(rest, cmd);                                                                            \
        void *argument = va_arg(rest, void *);                                                          \
        va_end(rest);                                                                                   \
        return locks_fail(#name, fd, cmd, argument);                                                    \
    }

PASS(fcntl)
PASS(fcntl64)
"""


def environment(folder: Path) -> dict[str, str]:
    """What to set for a command so that it and all that it starts know no locks; needs a C compiler."""
    (folder / "no_flock.c").write_text(SOURCE)
    library = folder / "no_flock.so"
    subprocess.run(["cc", "-shared", "-fPIC", folder / "no_flock.c", "-o", library, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}
