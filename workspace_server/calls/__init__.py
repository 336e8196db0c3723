"""The way of one `tools/call`: who asks, whether it may run, what comes back."""
