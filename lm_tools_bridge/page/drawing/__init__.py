"""Draws HTML and SVG, and escapes every value."""
