"""What every engine does alike when it delivers rows and markers, such as telling which cluster a sink is."""
