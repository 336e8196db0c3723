"""Where the user's API keys are kept: found in several places, written to the safest one."""
