"""Lines in bounded memory: what they are, and which files are something else."""

from __future__ import annotations

import io

import pytest

from hypothesis import example, given
from hypothesis import strategies as st

from ipistate.storage import LineFormError, bounded_lines


class Endless(io.BytesIO):
    """A file that repeats a byte for ever, and counts what was read of it."""

    def __init__(self, byte: bytes) -> None:
        super().__init__()
        self.byte, self.taken = byte, 0

    def readline(self, size: int | None = -1, /) -> bytes:
        """Give as much as was asked for, which has to be a bounded amount."""
        assert size is not None
        assert size > 0
        self.taken += size
        return self.byte * size


@given(st.lists(st.binary(max_size=30).map(lambda one: b"{" + one)))
@example([b"{" + b"x" * 2**17])
def test_lines_are_those_of_the_file(lines: list[bytes]) -> None:
    """Joined they are the file again, and each but the last ends with the only newline."""
    text = b"\n".join(lines)
    read = [*bounded_lines(io.BytesIO(text))]

    assert text == b"".join(read)
    assert all(one.endswith(b"\n") for one in read[:-1])


@given(st.integers(1, 40), st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_b11_lines_are_bounded(longest: int, lengths: list[int]) -> None:
    """B11: a line with its end is as long as the bound at most; the number is told."""
    text = b"".join(b"{" * length + b"\n" for length in lengths)
    first = next((n for n, one in enumerate(lengths, 1) if one + 1 > longest), None)
    if first is None:
        assert text == b"".join(bounded_lines(io.BytesIO(text), longest))
        return
    with pytest.raises(LineFormError, match=f"line {first}: longer") as caught:
        list(bounded_lines(io.BytesIO(text), longest))

    assert "line_too_long" == caught.value.code


@pytest.mark.parametrize("byte", [b"\x00", b"{", b" ", b"\xff"])
def test_b11_endless_files_end(byte: bytes) -> None:
    """B11: of a file without an end no more is read than a line may have."""
    endless = Endless(byte)
    with pytest.raises(LineFormError):
        list(bounded_lines(endless, 2**18))

    assert endless.taken <= 2**18 + 1


@pytest.mark.parametrize(
    ("start", "named"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"PK\x03\x04", "ZIP"),
        (b"PAR1", "Parquet"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"<!DOCTYPE html>\n<html>", "HTML"),
        (b"\n\n  <html>", "HTML"),
        (b"[\n  {},\n", "array"),
        (b"\x00\x01\x02", "binary"),
    ],
)
def test_d10_other_forms_are_named(start: bytes, named: str) -> None:
    """D10: a file of another form is refused once, by its name, with its line."""
    with pytest.raises(LineFormError, match=named) as caught:
        list(bounded_lines(io.BytesIO(start + b"\nmore\n" * 3)))

    assert "not_json_lines" == caught.value.code
    assert caught.value.message.startswith("line ")


@pytest.mark.parametrize("line", [b"{", b"[1]", b"3", b'"<"', b"{\x00}"])
def test_what_may_be_a_row_is_left_to_its_reader(line: bytes) -> None:
    """A torn or wrong row is no other form, and the first bytes alone decide."""
    assert [line + b"\n", b"<\n"] == [*bounded_lines(io.BytesIO(line + b"\n<\n"))]
