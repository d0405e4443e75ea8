"""What runs inside an agent; there is nothing here."""
