"""Agents to record, and what plays their model offline."""
