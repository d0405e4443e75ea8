"""A deep research agent: a supervisor with researchers that work in parallel; see README.md."""
