"""The live sessions, and the shell that does what the control machine decides."""
