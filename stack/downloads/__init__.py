"""Downloads the jars and archives of the servers, and checks each against its hash."""
