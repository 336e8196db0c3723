"""HTTP/1.1 server core of the manager and the workspace server.

Each program brings its admission rules and its routes; the core imports neither program.
"""
