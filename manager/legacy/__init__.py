"""The door for the era of sessions: initialize, sessions, their streams, cancellation."""
