"""The parts of a Faust worker; `app/` and `agents/` put them together."""
