"""Wheels, installed copies, installation scripts and systemd."""
