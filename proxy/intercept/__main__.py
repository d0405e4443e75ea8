"""Print the file that `mitmdump -s` takes: `mitmdump -s "$(python -m rotoscope.proxy.intercept)"`."""

from pathlib import Path

print(Path(__file__).with_name("script.py"))
