"""Sweeps: one replay a point of a grid over concurrency and settings of the server, in one folder."""
