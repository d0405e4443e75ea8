"""The search for the most agents that a server takes within service level objectives."""
