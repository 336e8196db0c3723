"""The control plane: the control socket, its routes and messages, and the services behind them."""
