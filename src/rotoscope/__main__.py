"""Run the command line as `python -m rotoscope`."""

from rotoscope.cli import main

main()
