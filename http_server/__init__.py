"""HTTP/1.1 server core of the manager and the workspace server.

Each program brings its admission rules and its routes; the core imports neither program. The package has more
than a dozen modules because each is one part of the grammar or of a connection, which can be tested alone.
"""
