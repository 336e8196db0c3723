"""The verbs trust, untrust and pending: what in a workspace waits for trust, and the decisions."""
