"""The command line's functions, one file a command; what they need is imported when they run."""
