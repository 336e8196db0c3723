"""What hosts of a team publish about themselves, what others see of it, and which host gets a call."""
