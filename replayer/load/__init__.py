"""The load that a replay puts on a server: which sessions there are and when they may start."""
