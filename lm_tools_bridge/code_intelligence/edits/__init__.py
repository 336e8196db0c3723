"""Changes files as a language server asks for: checked, shown as a diff, and applied whole or not at all."""
