"""The server on asyncio and h11, which serve where the faster ones do not exist."""

from ipistate.server import ServerSettings, run


if __name__ == "__main__":
    run(ServerSettings(), "127.0.0.1", 0, loop="asyncio", http="h11")
