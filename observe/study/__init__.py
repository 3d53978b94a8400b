"""A program over a plan of conditions: ``npc program study``."""
