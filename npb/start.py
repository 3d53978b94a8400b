"""The start of ``npb``: `npc.start` tells what for."""

from npc.start import only_what_is_meant


def npb() -> int:
    """The command ``npb``."""
    only_what_is_meant()
    from npc.npb.cli import main

    return main()
