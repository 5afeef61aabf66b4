"""Explains why a model's server cannot be reached: the key, the address, a proxy, certificates.

Faults in the environment or the address are reported before a request. A fault of a request is
recognized by the class of its innermost cause, not by its text: libraries report an unusable key as
"Connection error".
"""

from __future__ import annotations

import os
import re
import socket
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from ...compat.installed import missing
from .model_fault import ModelFault, causes, fault

_PREFIXES = {
    "openai": ("OPENAI_",),
    "google": ("GOOGLE_", "GEMINI_"),
}
_IN_HEADERS = re.compile(r"(?:_KEY|_TOKEN)\Z")
_OF_OPENAI = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""Environment variables that OpenAI's client sends with each request, to any server."""
_ADDRESSES = {
    "openai": ("OPENAI_BASE_URL",),
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "google": ("GOOGLE_GEMINI_BASE_URL",),
    "ollama": ("OLLAMA_BASE_URL",),
}
_SERVERS = {
    "google": ("GOOGLE_", "GEMINI_"),
    "azure": ("AZURE_", "OPENAI_API_VERSION"),
    "bedrock": ("AWS_", "BEDROCK_"),
    "cohere": ("CO_",),
    "gateway": ("PAIG_", "PYDANTIC_AI_GATEWAY_"),
    "github": ("COPILOT_", "GITHUB_COPILOT_"),
}
"""The beginnings of the variables that name a provider's server, by the first word of the provider,
if they are not the provider's name."""
_NAMES_SERVER = re.compile(r"_(?:URL|API_BASE|ENDPOINT|HOST|REGION|LOCATION|API_VERSION|ACCOUNT)\Z")
_QUOTES = "\"'`´“”„‘’‚«»"
_ALMOST_SCHEME = re.compile(r"\Ahttps?:?/+")
_LOCAL = re.compile(r"localhost|127\.[\d.]+|::1|0\.0\.0\.0")


class Proxy(NamedTuple):
    """The proxy through which an address is requested."""

    variable: str
    address: str
    host: str
    """The host of the server behind the proxy."""

    @property
    def is_wrong(self) -> bool:
        """Whether the server is on this computer, which no proxy can reach."""
        return bool(_LOCAL.fullmatch(self.host))


def server_of(provider: str, base_url: str) -> str:
    """The server of a model: ``base_url``, or what the environment says about it; empty: the
    provider's own.

    >>> server_of("openai", "http://localhost:8000/v1")
    'http://localhost:8000/v1'
    """
    if base_url:
        return base_url
    provider = _protocol(provider)
    prefixes = _SERVERS.get(provider.partition("-")[0], (f"{provider.upper()}_",))
    names = [name for name in sorted(os.environ) if name.startswith(prefixes)]
    return " ".join(f"{name}={os.environ[name]}" for name in names if _NAMES_SERVER.search(name))


def server_hint(provider: str, base_url: str) -> str:
    """The hint for a server that is not reached."""
    if provider == "ollama":
        return "start it: ollama serve (OLLAMA_BASE_URL sets another address)"
    named = [name for name in _ADDRESSES.get(_protocol(provider), ()) if os.environ.get(name)]
    if named and not base_url:
        return f"start the server, or correct os.environ[{named[0]!r}]"
    if not base_url:
        return "connect this computer to the network, and run again"
    return (
        "start the server, or set its address: %config AgfMagics.model_base_url = …, or "
        "agf.registry.choose(…, base_url=…), which wins over it"
    )


def _protocol(provider: str) -> str:
    # openai-chat and openai-responses are two protocols of the same provider.
    return "openai" if provider.startswith("openai-") else provider


def environment_fault(provider: str, base_url: str) -> ModelFault | None:
    """The fault of the key or an address in the environment, or of ``base_url``; None: they may be
    right."""
    provider = _protocol(provider)
    for variable in _sent_variables(provider, base_url):
        if wrong := _wrong_in_header(os.environ.get(variable, "")):
            hint = _strip_hint(variable) if wrong.is_outside else _COPY.format(variable)
            return fault("model.key", f"{variable} {wrong.words}, which no key has", hint)
    addresses = [("the address", base_url)] if base_url else []
    if not base_url:
        variables = _ADDRESSES.get(provider, ())
        addresses += [(name, os.environ[name]) for name in variables if os.environ.get(name)]
    return next(filter(None, (address_fault(name, url) for name, url in addresses)), None)


def address_fault(name: str, url: str) -> ModelFault | None:
    """The fault in the form of the address ``url``; None: it may be right. ``name``: the variable
    or option that has the address."""
    plain = "".join(letter for letter in url if not _is_blank(letter)).strip(_QUOTES)
    if "://" not in plain:
        plain = _ALMOST_SCHEME.sub("", plain)
        scheme = (
            "http" if _LOCAL.match(plain) or plain.partition(":")[2][:1].isdecimal() else "https"
        )
        plain = f"{scheme}://{plain}"
    try:
        parts = urlsplit(plain)
        port = parts.port
        wrong = "" if parts.hostname else "names no server"
    except ValueError:
        parts = None
        port = None
        wrong = "has a port that is no number from 1 to 65535"
    if port == 0:
        wrong = "has a port that is no number from 1 to 65535"
    if parts is not None and parts.scheme not in ("http", "https"):
        wrong = f"begins with {parts.scheme}://, not with http:// or https://"
    hint = "write an address such as http://127.0.0.1:8000/v1"
    if not wrong and (sign := next((sign for sign in "?#" if sign in plain), "")):
        # The path of a request is appended to the address.
        wrong = f"has a {sign!r}, and an address ends with its path"
        hint = f"leave out the {sign!r} and what follows"
    if wrong:
        return fault("model.address", f"{name} {url.strip()!r} {wrong}", hint)
    if plain == url:
        return None
    wrong = "does not begin with http:// or https://"
    if "://" in url:
        wrong = "has a line break" if set(url) & {"\n", "\r"} else "has a blank or a quote"
    return fault("model.address", f"{name} {url!r} {wrong}", f"write {plain}")


def _is_blank(letter: str) -> bool:
    """Whether a character is invisible."""
    return letter.isspace() or unicodedata.category(letter) in ("Cf", "Cc")


class _Wrong(NamedTuple):
    """The mistake in the value of a header."""

    words: str
    is_outside: bool
    """Whether the mistake is at the begin or end of the value, where it can be stripped."""


def _sent_variables(provider: str, base_url: str) -> Iterator[str]:
    """The environment variables whose values a request sends in its headers."""
    prefixes = _PREFIXES.get(provider, (f"{provider.upper()}_",))
    for name in sorted(os.environ):
        # The user's own server gets no key.
        if not base_url and name.startswith(prefixes) and _IN_HEADERS.search(name):
            yield name
    if provider == "openai":
        yield from _OF_OPENAI


def _wrong_in_header(value: str) -> _Wrong | None:
    """The first character that no key has, as the mistake of ``value``; None: there is none."""
    inside = value.strip()
    if value and not inside:
        return _Wrong("has blanks only", is_outside=False)
    if value != inside:
        blank = "a line break" if set(value) & {"\n", "\r"} else "a blank"
        where = "at its end" if value[0] == inside[0] else "at its beginning"
        return _Wrong(f"has {blank} {where}", not _bad_letter(inside))
    letter = _bad_letter(value)
    return _Wrong(f"has {_describe_letter(letter)}", is_outside=False) if letter else None


def _bad_letter(text: str) -> str:
    return next((letter for letter in text if not "!" <= letter <= "~"), "")


def _describe_letter(letter: str) -> str:
    if letter in "\r\n":
        return "a line break in it"
    name = unicodedata.name(letter, "a control character").lower()
    return f"the character U+{ord(letter):04X} ({name})"


def _strip_hint(variable: str) -> str:
    return f'os.environ["{variable}"] = os.environ["{variable}"].strip()'


_COPY = "copy it again from the provider's page, and set os.environ[{0!r}]"


def connection_fault(error: Exception, model: str, address: str, hint: str) -> ModelFault | None:
    """The fault of a failed connection, by its innermost cause; None: unknown. ``address``: the
    address of the server. ``hint``: the hint if the server is not reached."""
    class_names = {kind.__name__ for cause in causes(error) for kind in type(cause).__mro__}
    inner = list(causes(error))[-1]
    place_words = f" at {address}" if address else ""
    if not address and "ModelConnectionError" not in class_names:
        return None  # raised by the user's own model object
    if "LocalProtocolError" in class_names or _is_header(inner):
        message = f"a header of the request to {model} has a character that no header may have"
        return fault("model.key", message, "copy the key again, without blanks and quotes")
    # Compared by name, because a browser has no module ssl.
    tls = {kind.__name__ for kind in type(inner).__mro__}
    if "SSLCertVerificationError" in tls:
        why = getattr(inner, "verify_message", "")
        message = f"the certificate of the server of {model}{place_words} is not trusted: {why}"
        return fault("model.certificate", message, _CERTIFICATES)
    if isinstance(inner, OverflowError):
        return fault(
            "model.address", f"the address of {model}{place_words} has a port out of range"
        )
    proxy = proxy_of(address)
    failed = "ModelConnectionError" in class_names and "ModelTimeoutError" not in class_names
    if proxy is not None and (failed or "ProxyError" in class_names):
        return _proxy_fault(proxy, model, place_words)
    if "SSLError" in tls:
        message = f"the server of {model}{place_words} does not speak TLS"
        return fault("model.certificate", message, "write http:// if it has no certificate")
    if not failed:
        return None
    if isinstance(inner, socket.gaierror):
        message = f"there is no server for {model}{place_words}: its name is not known"
        return fault("model.no-server", message, "correct the address, or connect to its network")
    if isinstance(inner, _CLOSED) or class_names & _CLOSED_NAMES:
        message = f"the server of {model}{place_words} closed the connection without an answer"
        return fault("model.no-server", message, _LOOK)
    words = next((text for kind, text in _WORDS.items() if isinstance(inner, kind)), "")
    words = words or (
        "the connection failed" if isinstance(inner, OSError) else type(inner).__name__
    )
    return fault("model.no-server", f"there is no server for {model}{place_words}: {words}", hint)


_CLOSED = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_CLOSED_NAMES = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
_LOOK = "its log may say why; the address may also need https://, or be that of another program"

_WORDS: dict[type[BaseException], str] = {
    ConnectionRefusedError: "the connection was refused",
    TimeoutError: "it does not answer",
}


def answer_fault(model: str, where: str, status: int | None) -> ModelFault | None:
    """The fault if a proxy answered in place of a server on this computer, which no proxy can
    reach."""
    proxy = proxy_of(where)
    if proxy is None or not (proxy.is_wrong or status == 407):
        return None
    return _proxy_fault(proxy, model, f" at {where}")


def socks_fault(model: str) -> ModelFault | None:
    """The fault if a proxy needs a package that is not installed; None: another package is
    missing."""
    for name in sorted(os.environ):
        is_socks = os.environ[name].lower().startswith("socks")
        if name.lower().endswith("_proxy") and is_socks and missing(["socksio"]):
            message = f"{model} needs socksio, which is not installed: {name} names a SOCKS proxy"
            return fault("model.not-installed", message, "pip install socksio")
    return None


def certificates_fault(error: Exception, model: str) -> ModelFault | None:
    """The fault if the certificates of this computer cannot be read; None: there is another
    reason."""
    if not any(isinstance(cause, OSError) for cause in causes(error)):
        return None
    for variable, is_there in (("SSL_CERT_FILE", os.path.isfile), ("SSL_CERT_DIR", os.path.isdir)):
        path = os.environ.get(variable)
        if path and (variable == "SSL_CERT_FILE" or not is_there(path)):
            problem = "cannot be read" if is_there(path) else "is not there"
            message = f"{model} cannot be asked: {variable} names {path!r}, which {problem}"
            return fault("model.certificate", message, f"del os.environ[{variable!r}]")
    return None


_CERTIFICATES = (
    "os.environ['SSL_CERT_FILE'] = '…' names a file with the certificates that you trust, "
    "such as those of your company"
)


def _is_header(inner: BaseException) -> bool:
    return isinstance(inner, UnicodeEncodeError) and inner.encoding == "ascii"


def _proxy_fault(proxy: Proxy, model: str, place_words: str) -> ModelFault:
    message = (
        f"{model}{place_words} is not reached by the proxy {proxy.address} of {proxy.variable}"
    )
    before = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    hosts = f"{before},{proxy.host}" if before else proxy.host
    return fault("model.proxy", message, f'os.environ["NO_PROXY"] = "{hosts}" asks no proxy for it')


def proxy_of(where: str) -> Proxy | None:
    """The proxy through which the environment sends requests to the address ``where``; None: no
    proxy."""
    from urllib.request import getproxies_environment, proxy_bypass

    try:
        parts = urlsplit(where)
        host = parts.hostname or ""
    except ValueError:
        return None
    proxies = getproxies_environment()
    if not host or proxy_bypass(host):
        return None
    for scheme in (parts.scheme, "all"):
        if address := proxies.get(scheme):
            names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
            variable = next((name for name in names if os.environ.get(name)), names[1])
            return Proxy(variable, address, host)
    return None
