"""A solver of puzzles that thinks in a tree: `python -m examples.tree_of_thought`."""
