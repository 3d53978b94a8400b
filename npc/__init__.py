"""NPC, the Network Performance Collector: the record, its units, its statistics, and the command line."""

from npc.record import InvalidRecord, Reading, Record
from npc.run import read_run

__all__ = ["InvalidRecord", "Reading", "Record", "read_run"]
__version__ = "0.1.0"
