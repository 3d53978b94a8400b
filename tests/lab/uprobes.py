"""What probes of the kernel need, which a machine may lack (root, bpftrace, uprobes, tracefs)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

#: Where uprobes are defined.
DEFINED: Final = Path("/sys/kernel/tracing/uprobe_events")


def lacking() -> str:
    """What is missing here; empty where nothing is."""
    if os.geteuid():
        return "uprobes need root"
    if shutil.which("bpftrace") is None:
        return "no bpftrace"
    return "" if DEFINED.exists() else "no uprobes, or mount -t tracefs tracefs /sys/kernel/tracing"


needs_uprobes: Final = pytest.mark.skipif(bool(lacking()), reason=lacking())
#: Kernels of containers and of hosted CI have no uprobes for their guests.
may_lack_uprobes: Final = pytest.mark.optional_skip("a container's kernel may have no uprobes")
