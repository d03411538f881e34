"""The definition of a feed: targets, options, sink, registry, names of topics."""
