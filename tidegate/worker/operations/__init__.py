"""What a worker says of itself, and the alarms that watch it."""
