"""The internal channel: secrets, provider configuration and all tools, for programs of the user."""
