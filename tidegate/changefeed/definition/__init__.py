"""What a feed is defined by: targets, options, sink, registry, names of topics."""
