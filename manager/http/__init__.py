"""HTTP requests and responses of the manager's port, apart from the connections that carry them."""
