"""CREATE CHANGEFEED statements: grammar, options, and the definition that a statement makes."""
