"""A program's memory by page, thread and structure: counted by code that the compiler adds, or sampled."""
