"""What a connection of HTTP/1.1 needs on the side that is asked: grammar of heads, bodies, deadlines, room.

Shared by the manager and the workspace server, which do not know each other. What a request means, who may
come in and what is answered is theirs.
"""
