"""Where requests of the manager arrive: HTTP, methods, lists, streams."""
