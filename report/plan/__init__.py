"""``npc plan``: from a question and an amount of time to the run that answers it."""
