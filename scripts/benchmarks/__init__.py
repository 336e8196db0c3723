"""What the manager costs, measured: a file for each subject; `__main__` is the command."""
