"""Start of the daemon: its lock and sockets, their hand-over by systemd or a predecessor."""
