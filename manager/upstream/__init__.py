"""Where requests leave: workspace servers as processes, connections to them, and forwarding."""
