"""The nightly watch: a history that loses nothing, a verdict for each series, and the node to blame."""
