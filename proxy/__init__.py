"""What stands between an agent and its server: the gateway, and `record`, which runs an agent behind it."""
