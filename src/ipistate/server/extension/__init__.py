"""The routes of the extension, which the protocol does not know."""

from ipistate.server.extension.routes import Extension


__all__ = ["Extension"]
