"""The commands of this room, a module each: options, help, and a callback.

They and the other rooms' modules of commands load click and nothing that only running a command needs, so
that ``--help`` and the completion of words come at once; a callback imports the module that does its work.
"""
