"""Finds symbols and shows them: names, places in files, lines around them."""
