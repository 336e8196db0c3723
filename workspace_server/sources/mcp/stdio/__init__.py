"""Servers that are processes of ours, spoken to over their standard input and output."""
