"""The rules: one function each."""
