"""Commands for executors that dial out, and for the service between them and their users."""
