"""The ``module`` command of a site, as a job inherits it from who submitted it: a function of bash.

Lmod is Debian's; Environment Modules, which excludes it, is unpacked (``tests/lab/fetch_packages.sh``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_LMOD: Final = Path("/usr/share/lmod/lmod/libexec/lmod")
_TCL: Final = Path(sys.prefix) / "share/npc/environment-modules/usr/lib"


def missing() -> str:
    """What keeps modules from being loaded here; empty if nothing does."""
    if not _LMOD.exists():
        return "no Lmod: apt-get install lmod"
    return (
        ""
        if next(_TCL.glob("*/modulecmd.tcl"), None)
        else "no Environment Modules: tests/lab/fetch_packages.sh"
    )


def module_commands(modulefiles: Path) -> dict[str, dict[str, str]]:
    """Variables by which a shell has the command, by its maker. ``3.2`` is an Environment Modules whose
    command says 0 whatever happened, as version 3.2 does."""
    tcl = f"/usr/bin/tclsh {next(_TCL.glob('*/modulecmd.tcl'))}"
    bodies = {
        "Lmod": f'eval "$({_LMOD} bash "$@")"',
        "Environment Modules": f'eval "$({tcl} bash "$@")"',
        "3.2": f'eval "$({tcl} bash "$@")"; return 0',
    }
    return {
        maker: {"BASH_FUNC_module%%": f"() {{ {body}\n}}", "MODULEPATH": str(modulefiles)}
        for maker, body in bodies.items()
    }
