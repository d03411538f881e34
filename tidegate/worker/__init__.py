"""What a Faust worker is made of; `app/` and `agents/` put it together."""
