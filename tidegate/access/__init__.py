"""What a process may reach, and with which secrets: destinations, secrets, private files, HTTP."""
