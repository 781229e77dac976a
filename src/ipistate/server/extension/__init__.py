"""The routes of the extension, which the protocol does not know."""
