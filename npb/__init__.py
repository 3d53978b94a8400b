"""npb: starts a client/server network tool on the right nodes and does not disturb it."""
