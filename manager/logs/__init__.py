"""Log lines of the manager: their format and files, the rotation of logs, a watch over the event loop."""
