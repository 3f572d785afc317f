"""From a bare Python to a standing environment: packages, a Java runtime, Java artifacts.

Standard library only, because it runs before anything is installed. It says what it does and how long it took (on stderr),
goes on where it was interrupted, may run several times at once, and does nothing when all is there.
"""
