"""One offline page from runs and histories, and their comparison."""
