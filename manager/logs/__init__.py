"""Log lines of the manager: their format and file, and a watch over the event loop."""
