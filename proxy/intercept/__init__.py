"""Recording of programs whose server cannot be changed: mitmproxy opens what they say, a recorder hears it.

mitmproxy is in the extra `intercept`. It ties what it needs to old versions, so it belongs into an environment apart from
those of agents; what needs it here is imported late.
"""
