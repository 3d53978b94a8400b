"""What it costs a program to be watched: seconds of one event, measured once a machine and kept."""
