"""The verb top: a live view of calls, servers and clients."""
