"""The start of ``npc``, ``npb`` and ``npc-python``: what was installed with them, and nothing else.

Modules of a cluster set ``PYTHONPATH``, where Python looks before everything else: an older numpy there would
be taken for the one that NPC was installed with. So would be what lies in the present folder or in the
user's own ``site-packages``. The environment stays as it is: programs that NPC starts find what they should.

mpi4py is taken from elsewhere where somebody means it: ``NPC_MPI4PY=FOLDER``, in which that mpi4py is.

It is started as a console script's module, or by its path (`npc.python`), and loads nothing before `sys.path`
is right.
"""

import os
import site
import sys

#: The folder in which the package ``npc`` is.
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def homes() -> list[str]:
    """This Python's folders in which NPC is installed. None where `PYTHONPATH` alone leads to it, as in a
    module of Spack or EasyBuild."""
    return [folder for folder in (*site.getsitepackages(), site.getusersitepackages()) if _has_npc(folder)]


def _has_npc(folder: str) -> bool:
    try:
        return any(name.startswith("npc_suite-") for name in os.listdir(folder))
    except OSError:
        return False


def others() -> list[str]:
    """The folders of ``PYTHONPATH``, and the user's own: what is not of this Python and not NPC's."""
    library = os.path.dirname(os.__file__)
    own = {*site.getsitepackages(), *homes(), library, os.path.join(library, "lib-dynload"), OURS}
    named = os.environ.get("PYTHONPATH", "")
    folders = [os.path.abspath(folder) for folder in named.split(os.pathsep)] if named else []
    return [folder for folder in (*folders, site.getusersitepackages()) if folder not in own]


def only_what_is_meant() -> None:
    """Leave in `sys.path` what belongs to this installation; what came with it by ``PYTHONPATH``, too."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]  # the script's folder, or the present one
    if homes():
        unwanted = others()
        sys.path[:] = [folder for folder in sys.path if folder not in unwanted]
        if OURS not in sys.path:
            sys.path.append(OURS)
    else:
        sys.path.insert(0, OURS)
    if os.environ.get("NPC_MPI4PY"):
        sys.meta_path.insert(0, _Mpi4py())  # type: ignore[arg-type]


class _Mpi4py:
    """Finds mpi4py in the folder that is named for it, and nothing else there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """As `importlib.abc.MetaPathFinder` has it. Raises ImportError where there is no mpi4py."""
        if name != "mpi4py":
            return None
        from importlib.machinery import PathFinder

        folder = os.environ["NPC_MPI4PY"]
        spec = PathFinder.find_spec(name, [folder])
        if spec is None or spec.loader is None:
            raise ImportError(f"NPC_MPI4PY={folder}: there is no mpi4py in this folder")
        return spec


def npc() -> object:
    """The command ``npc``."""
    only_what_is_meant()
    from npc.cli import main

    return main()


def python() -> None:
    """The command ``npc-python FILE|-m MODULE|-c CODE ARGUMENT…``: this Python, for NPC's own programs."""
    only_what_is_meant()
    import runpy

    del sys.argv[0]
    kind = sys.argv.pop(0) if sys.argv[:1] in (["-m"], ["-c"]) else ""
    if not sys.argv:
        sys.exit("usage: npc-python FILE|-m MODULE|-c CODE [ARGUMENT…]")
    if kind == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        code, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    python()
