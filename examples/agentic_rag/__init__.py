"""An agent that answers questions from documents it looks for itself: `python -m examples.agentic_rag`."""
