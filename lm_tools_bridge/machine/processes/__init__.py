"""Watches and ends processes of this machine, and sets what the kernel keeps of them."""
