"""How a person sees and answers the agent: at a terminal, through a pipe, or as JSON lines for programs."""
