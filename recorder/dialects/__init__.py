"""The interfaces that the recorder understands, one a file."""
