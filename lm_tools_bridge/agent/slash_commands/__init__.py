"""What a person can enter beside questions for the model: slash commands, and tools in manual mode."""
