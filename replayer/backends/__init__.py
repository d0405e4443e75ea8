"""How a server is talked to, one kind of request a file."""
