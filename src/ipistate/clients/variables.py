"""Variables of the environment that decide where a request goes and whom it trusts.

They are set for other programs, and long ago. One that cannot be used is named before
anything is sent; otherwise every request would fail, each with a text of its own.
"""

from __future__ import annotations

import os
import ssl

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from ipistate.errors import EnvironmentVariableError


if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMES: Final = ("http", "https")


def unusable(name: str, problem: str) -> EnvironmentVariableError:
    """Say that a variable cannot be used; its value may hold a password."""
    message = f"the environment variable {name} {problem}; change or unset it"
    return EnvironmentVariableError("unusable_variable", message)


def check_environment(url: str) -> None:
    """Check everything of the environment that requests to a URL depend on.

    Raises:
        EnvironmentVariableError: One of the variables cannot be used.
    """
    proxy = environment_proxy(url)
    if "https" in {urlsplit(one).scheme for one in (url, proxy) if one}:
        _check_certificates()


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL, as for other programs.

    Raises:
        EnvironmentVariableError: It is no HTTP proxy, or no URL at all.
    """
    parts, proxies = urlsplit(url), getproxies()
    scheme = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(scheme)
    # The second one for IPv6, which has brackets in the first one.
    hosts = (parts.netloc, parts.hostname or "")
    if not proxy or any(map(proxy_bypass, hosts)) or _is_in_range(hosts[1], proxies):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if problem := _problem(proxy):
        raise unusable(_name(f"{scheme}_proxy"), problem)
    return proxy


def _is_in_range(host: str, proxies: Mapping[str, str]) -> bool:
    # Ranges of addresses, which other programs read and the standard library does not.
    try:
        address = ip_address(host)
    except ValueError:
        return False
    for name in proxies.get("no", "").split(","):
        try:
            if "/" in name and address in ip_network(name.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


def _problem(proxy: str) -> str | None:
    try:
        parts = urlsplit(proxy)
        named = bool(parts.hostname) and parts.port != 0 and bool(URL(proxy).host)
    except ValueError:
        return "names a proxy by a URL that cannot be read"
    if parts.scheme not in _SCHEMES:
        return (
            "names a proxy that is not http://host:port, the only kind that is spoken"
        )
    return None if named else "names a proxy without a host or a port"


def _name(variable: str) -> str:
    # The library does not mind the case; small letters go first.
    found = [name for name in os.environ if name.lower() == variable]
    return max(found, default=variable)


def _check_certificates() -> None:
    if (file := os.environ.get("SSL_CERT_FILE")) is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cafile=file)
        except ssl.SSLError as error:
            raise unusable("SSL_CERT_FILE", "names no certificates") from error
        except OSError as error:
            problem = f"names a file that cannot be read ({error.strerror})"
            raise unusable("SSL_CERT_FILE", problem) from error
    if (directories := os.environ.get("SSL_CERT_DIR")) is not None and not any(
        Path(one).is_dir() for one in directories.split(os.pathsep) if one
    ):
        raise unusable("SSL_CERT_DIR", "names no directory")
