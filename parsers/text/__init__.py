"""What parsers share: lines and numbers of a text, options of a command line, tables of numbers."""
