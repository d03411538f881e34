"""The reports of a worker about itself, and the alarms that watch it."""
