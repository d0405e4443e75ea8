"""What the GPUs behind a server tell of themselves over a run: power, energy, utilisation, memory, heat and errors."""
