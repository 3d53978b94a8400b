"""``python -m npc``: the same as ``npc``."""

from npc.cli import main

if __name__ == "__main__":
    main(prog_name="npc")
