"""What becomes of what spans tell when a trace is made of them."""

from __future__ import annotations

from rotoscope.traces.formats.fidelity import Aspect

OURS = Aspect("traces that spans were made of", "kept", "each to every field", "traces")
LENGTHS = Aspect("prompt and output lengths", "kept", "as the server's usage")
TIMES = Aspect("times of calls", "kept")
TOOLS = Aspect("tools and when they ran", "kept", unit="tools")
BRANCHES = Aspect("who ran beside whom", "kept", "as the spans stand within one another", "branches")
DOUBLES = Aspect(
    "spans that tell of a call that another tells of", "kept", "each call once, as the innermost tells", "spans"
)
REPEATED = Aspect("spans that stand in the file more than once", "kept", "the one that has ended last", "spans")
CONTENT = Aspect("prefixes of calls whose spans hold content", "approximated", "within bounds, by digests of it")
ASSUMED = Aspect("prefixes of calls whose spans hold no content", "approximated", "assumed by conversation and counts")
BORNE_OUT = Aspect(
    "assumed prefixes that what the server found in its cache bears out", "approximated", "it is not longer"
)
ESTIMATED = Aspect("lengths of calls without usage", "approximated", "by their content, with a tokenizer at hand")
ORPHANS = Aspect("spans whose parent is not in the file", "approximated", "as if nothing stood above them", "spans")
LOOSE = Aspect("calls that stand alone in traces of their own", "approximated", "as one run for each process")
PUT = Aspect("tools and embeddings that stand alone", "approximated", "as of the run that they happened in", "spans")
UNFINISHED = Aspect("calls whose spans had not ended", "approximated", "as lost in flight, if not counted by then")
OPAQUE = Aspect("prefixes of calls without content that begin anew", "lost", "they may begin like anything")
UNSIZED = Aspect("calls without usage and content", "lost", "nothing tells how long they are")
CUT = Aspect(
    "content of spans of which the exporter left something out", "lost", "it is not known to be whole", "spans"
)
REFUSED = Aspect("calls that failed and were not sent again", "lost", "no prompt of theirs was answered")
UNREAD = Aspect("calls that the recorder cannot read", "lost", "their content has no prompt")
STRAYS = Aspect("tools and embeddings outside of any run", "lost", "their spans stand alone", "spans")
BESIDE_OURS = Aspect(
    "spans beside those that were made of traces", "lost", "read them from a file of their own", "spans"
)
TEXT = Aspect("content", "lost", "it is never kept")
NAMES = Aspect("names of models, tools and agents", "lost", "they are numbered", "traces")

READ_ASPECTS = (
    *(OURS, LENGTHS, TIMES, TOOLS, BRANCHES, DOUBLES, REPEATED),
    *(CONTENT, ASSUMED, BORNE_OUT, ESTIMATED, ORPHANS, LOOSE, PUT, UNFINISHED),
    *(OPAQUE, UNSIZED, CUT, REFUSED, UNREAD, STRAYS, BESIDE_OURS, TEXT, NAMES),
)
