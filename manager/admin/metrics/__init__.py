"""The manager's counters: snapshots, the last ten minutes, and the text of `/metrics`."""
