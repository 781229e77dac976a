"""``python -m ipistate``."""

from ipistate.cli import main


if __name__ == "__main__":
    main()
