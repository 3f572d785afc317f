"""The command line: one small file per command; talks to people."""
