"""Reads script tools from their folders: manifest, parameters and files."""
