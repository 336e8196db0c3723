"""How verbs reach the manager and print what it answers."""
