"""A small language server of our own: outlines by syntax, where no better server is installed."""
