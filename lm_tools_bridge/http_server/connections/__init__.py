"""The connections of a server: their states, their room for bodies, what their clients have not read."""
