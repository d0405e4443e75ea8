"""Which hosts are inference endpoints: connections to them are opened, all others pass as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rotoscope.traces.errors import UnusableInput

INFERENCE_HOSTS = (
    "api.openai.com",
    "*.api.openai.com",
    "chatgpt.com",
    "*.openai.azure.com",
    "*.services.ai.azure.com",
    "*.cognitiveservices.azure.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "*-aiplatform.googleapis.com",
    "openrouter.ai",
    "opencode.ai",
    "api.mistral.ai",
    "codestral.mistral.ai",
    "api.deepseek.com",
    "api.groq.com",
    "api.together.xyz",
    "api.together.ai",
    "api.fireworks.ai",
    "api.x.ai",
    "api.cerebras.ai",
    "api.sambanova.ai",
    "api.deepinfra.com",
    "api.novita.ai",
    "api.hyperbolic.xyz",
    "api.perplexity.ai",
    "api.cohere.com",
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.minimax.io",
    "api.z.ai",
    "open.bigmodel.cn",
    "dashscope.aliyuncs.com",
    "dashscope-intl.aliyuncs.com",
    "portal.qwen.ai",
    "ark.cn-beijing.volces.com",
    "integrate.api.nvidia.com",
    "router.huggingface.co",
    "*.endpoints.huggingface.cloud",
    "api.githubcopilot.com",
    "*.githubcopilot.com",
    "models.github.ai",
)
"""Hosted servers of the dialects that are recorded."""

_PATTERN = re.compile(r"(?P<host>(\*[.-]?)?[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts whose connections are opened, as `HOST` or `HOST:PORT`; a `*` at the start of one is any name."""

    patterns: tuple[str, ...] = INFERENCE_HOSTS
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_regex", re.compile("|".join(self.regexes), re.IGNORECASE))

    @property
    def regexes(self) -> list[str]:
        """Regular expressions for `HOST:PORT`, as mitmproxy's `allow_hosts` takes them."""
        return [_regex(pattern) for pattern in self.patterns]

    @property
    def ports(self) -> set[int]:
        """The ports that are named."""
        return {int(match["port"]) for one in self.patterns if (match := _PATTERN.fullmatch(one)) and match["port"]}

    @property
    def domains(self) -> list[str]:
        """The domains that hold all of them; none where one is of any domain.

        Addresses are among them, but for those of IPv6: OpenSSL takes a certificate's common name for a domain.
        """
        names = [pattern for pattern in self.patterns if ":" not in _host(pattern)]
        found = [_host(name).partition(".")[2] if "*" in name else _host(name) for name in names]
        return list(dict.fromkeys(domain.lower() for domain in found)) if all(found) else []

    def names(self, host: str) -> bool:
        """Tell whether connections to a host are opened, if only to some port."""
        return any(self.opens(host, port) for port in {0, *self.ports})

    def opens(self, host: str, port: int) -> bool:
        """Tell whether connections to a host are opened."""
        return self._regex.match(f"{in_ascii(host)}:{port}") is not None


def in_ascii(text: str) -> str:
    """Return a host as clients ask for it (RFC 5891)."""
    try:
        return text if text.isascii() else text.encode("idna").decode()
    except UnicodeError:
        return text


def chosen_hosts(given: Iterable[str]) -> Hosts:
    """Return the known inference hosts and those that were given. Raises UnusableInput."""
    patterns = []
    for text in given:
        host = in_ascii(text)
        match = _PATTERN.fullmatch(host)
        if match is None or not 0 < int(match["port"] or 443) <= 65535:
            raise UnusableInput(
                f"{text!r} is no host to open: give one like 'llm.example.com', '*.example.com' or 'host:8443'"
            )
        patterns.append(host)
    return Hosts((*INFERENCE_HOSTS, *patterns))


def _regex(pattern: str) -> str:
    match = _PATTERN.fullmatch(pattern)
    assert match is not None, pattern
    host, port = match["host"].strip("[]"), match["port"]
    begin = r"^[^:]*" if host.startswith("*") else "^"
    return f"{begin}{re.escape(host.removeprefix('*'))}:{port or r'[0-9]+'}$"


def _host(pattern: str) -> str:
    match = _PATTERN.fullmatch(pattern)
    assert match is not None, pattern
    return match["host"].strip("[]")
