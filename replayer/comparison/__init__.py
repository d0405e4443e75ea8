"""Two runs or more, session by session: what differs between two systems, and whether that is more than chance."""
