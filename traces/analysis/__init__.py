"""What can be computed from traces: statistics and the optimal cache hits."""
