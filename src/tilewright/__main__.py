"""`python -m tilewright`: the command line without an installed program."""

from tilewright.cli.main import app_main

app_main()
