"""Validity gates: each says of a run whether one thing that its numbers rely on held."""
