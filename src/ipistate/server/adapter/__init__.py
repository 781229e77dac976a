"""What speaks the protocol: routes, the tool call's way, cookie, prefix, gate, token."""
