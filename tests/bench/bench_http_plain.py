"""What an operator loses without uvloop and httptools."""

from bench_http import plain_rows as rows


__all__ = ["rows"]
