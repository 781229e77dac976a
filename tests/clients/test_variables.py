"""Variables of the environment: what is read of them, and what is said of a wrong one."""

from __future__ import annotations

import ssl
import subprocess
import sys

from pathlib import Path

import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.clients import check_environment, environment_proxy
from ipistate.errors import EnvironmentVariableError


PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
PROXY_URL = "http://{}.test:1"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *map(str.upper, PROXIES), *CERTIFICATES):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://h.test/v1", "http://plain.test:1"),
        ("https://h.test", "http://other.test:2"),
        ("http://exempt.test:80", None),
        ("http://below.exempt.test", None),
        ("http://notexempt.test", "http://plain.test:1"),
        ("http://[::1]:8000/v1", None),
        ("http://10.0.0.7", None),
    ],
)
def test_proxies_of_the_environment(
    url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheme has its proxy or that of all; hosts, their subdomains and addresses are exempt."""
    monkeypatch.setenv("HTTP_PROXY", "http://plain.test:1")
    monkeypatch.setenv("ALL_PROXY", "other.test:2")
    monkeypatch.setenv("NO_PROXY", "exempt.test, ::1,10.0.0.7")

    assert proxy == environment_proxy(url)


@pytest.mark.parametrize(
    ("exempt", "url", "direct"),
    [
        ("localhost,::1/128", "http://[::1]:8000", True),
        ("localhost,::1/128", "http://[::2]:8000", False),
        ("[::1]", "http://[::1]:8000", True),
        ("10.0.0.0/8", "http://10.9.8.7", True),
        ("10.0.0.1/8", "http://10.9.8.7", True),
        ("10.0.0.0/8", "http://11.0.0.1", False),
        ("10.0.0.0/8", "http://h.test", False),
        ("10.0.0.0/99,x/y,/,[", "http://10.0.0.1", False),
    ],
)
def test_a6_hosts_without_a_proxy(
    exempt: str, url: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: addresses in brackets and ranges of addresses are read; what is no name is none."""
    monkeypatch.setenv("HTTP_PROXY", PROXY_URL.format("p"))
    monkeypatch.setenv("NO_PROXY", exempt)

    assert (None if direct else PROXY_URL.format("p")) == environment_proxy(url)


@pytest.mark.parametrize(
    "value",
    [
        "socks5://p.test:1",
        "socks5h://p.test:1",
        "socks4://p.test:1",
        "ftp://p.test:1",
        "://",
        "http://",
        "http://:1",
        "http://[::1",
        "http://p.test:0",
        "http://p.test:99999",
        "http://p.test:abc",
        "http://me:hunter2@",
    ],
)
@pytest.mark.parametrize("name", [*PROXIES[:3], *map(str.upper, PROXIES[:3])])
def test_a6_a_proxy_that_cannot_be_spoken_to_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: the variable is named, in the letters that it has; its password is not."""
    monkeypatch.setenv(name, value)
    scheme = "https" if name.lower() == "https_proxy" else "http"
    with pytest.raises(EnvironmentVariableError) as caught:
        check_environment(f"{scheme}://h.test/v1")

    assert "unusable_variable" == caught.value.code
    assert f"the environment variable {name} names a proxy" in caught.value.message
    assert "hunter2" not in str(caught.value)


def test_a6_the_variable_that_counts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A6: small letters go before capitals; what is not used is not looked at."""
    monkeypatch.setenv("HTTP_PROXY", "socks5://p.test:1")
    monkeypatch.setenv("http_proxy", PROXY_URL.format("p"))
    monkeypatch.setenv("https_proxy", "socks5://p.test:1")

    assert PROXY_URL.format("p") == environment_proxy("http://h.test")
    with pytest.raises(EnvironmentVariableError, match="https_proxy"):
        environment_proxy("https://h.test")


@given(st.sampled_from(PROXIES), st.text(st.characters(codec="ascii", min_codepoint=1)))
def test_a6_no_value_does_anything_else(name: str, value: str) -> None:
    """A6: whatever stands in a variable, a proxy is found, none is, or it is named."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("http_proxy", PROXY_URL.format("p"))
        patched.setenv(name, value)
        try:
            check_environment("http://10.0.0.1:8000/v1")
        except EnvironmentVariableError as error:
            assert name in error.message  # noqa: PT017 - most values are no error


@pytest.mark.parametrize("content", [None, b"", b"no certificates"])
def test_a6_a_file_of_certificates_that_is_none_is_named(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: without its certificates every request would fail; plain HTTP needs none."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))

    check_environment("http://h.test")
    with pytest.raises(EnvironmentVariableError, match="SSL_CERT_FILE"):
        check_environment("https://h.test")


@pytest.mark.parametrize("proxy", ["https_proxy", "http_proxy"])
def test_a6_a_proxy_needs_certificates_too(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: what counts is whether anything on the way is encrypted."""
    monkeypatch.setenv(proxy, "https://p.test:1")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    scheme = proxy.partition("_")[0]
    with pytest.raises(EnvironmentVariableError, match="SSL_CERT_DIR"):
        check_environment(f"{scheme}://h.test")

    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path / 'none'}:{tmp_path}")
    check_environment(f"{scheme}://h.test")


def test_a6_certificates_that_can_be_read_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A6: the file that the system itself names is no finding."""
    file = ssl.get_default_verify_paths().cafile
    if file is None:
        pytest.skip("this system has no file of certificates")
    monkeypatch.setenv("SSL_CERT_FILE", file)

    check_environment("https://h.test")


def test_a6_a_key_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A6: the HTTP library opens it when it is imported, so the import says its name."""
    done = subprocess.run(
        [sys.executable, "-m", "ipistate", "run", "--help"],
        env={
            "SSLKEYLOGFILE": str(tmp_path / "none" / "x"),
            "PYTHONPATH": ":".join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert 2 == done.returncode
    assert 1 == len(done.stderr.splitlines())
    assert "the environment variable SSLKEYLOGFILE" in done.stderr
