"""How verbs ask the manager, and print its answers."""
