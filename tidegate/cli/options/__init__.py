"""Types of options that commands share."""
