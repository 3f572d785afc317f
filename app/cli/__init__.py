"""The command line: one small file per command, in rooms by what people do; talks to people. `main` lists the commands, `later` imports them."""
