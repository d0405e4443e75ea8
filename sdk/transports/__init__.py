"""How HTTP clients of this process come to let their requests be heard: a file for each client.

No client is imported here: one that is loaded is patched at once, others when they are loaded.
"""
