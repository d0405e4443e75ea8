"""Performing traces on a server: schedule, prompts, the run and its results."""
