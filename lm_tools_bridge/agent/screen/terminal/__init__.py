"""The agent on a terminal: boxes, replies as they arrive, rendered Markdown, and the prompt's line editor."""
