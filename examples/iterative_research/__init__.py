"""An iterative research agent, whose prompt is made anew each round; see README.md."""
