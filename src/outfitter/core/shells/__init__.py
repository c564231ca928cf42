"""One file per family of shells: how its command line is read, kept quiet, and made to say what it sees."""
