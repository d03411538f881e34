"""What a process may connect to, and with which secrets: destinations, secrets, private files, HTTP."""
