"""An agent whose server cannot be changed, and which knows of no proxy: `hard_wired_agent.py API_HOST OTHER_HOST`.

It calls its server over HTTP/1 and HTTP/2, and says which it spoke; then which certificates hosts have, and what a server of
another protocol on another port greets with. It runs in the environment of the clients.
"""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import sys

from openai import DefaultHttpxClient, OpenAI

QUESTION = "What is said in here is written nowhere"


def spoken(host: str, *, http2: bool) -> str:
    """Call a server; return the version of HTTP in which it was spoken to."""
    client = OpenAI(api_key="sk-none", base_url=f"https://{host}/v1", http_client=DefaultHttpxClient(http2=http2))
    answer = client.chat.completions.with_raw_response.create(
        model="m", messages=[{"role": "user", "content": QUESTION}]
    )
    assert answer.parse().id == "c"
    return str(answer.headers["x-spoken"])


def fingerprint(host: str) -> str:
    """Return the SHA-256 of the certificate of a host, whoever signed it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host) as connection:
        return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()


def greeting(host: str) -> str:
    with socket.create_connection((host, 7)) as connection:
        return connection.recv(100).decode()


api, other = sys.argv[1:]
said = {"spoken": [spoken(api, http2=http2) for http2 in (False, True)], "greeting": greeting(other)}
print(json.dumps({**said, "api": fingerprint(api), "other": fingerprint(other)}))
