"""What inference servers count themselves: Prometheus text of five families of engines as one value, and its growth."""
