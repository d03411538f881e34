"""The access rules of a process: destinations, secrets, private files, HTTP."""
