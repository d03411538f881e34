"""The parts of delivery that are the same for every engine, such as finding out which cluster a sink is."""
