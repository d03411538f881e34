"""Real servers for development, tests and the demo: no Docker, no root, nothing installed system-wide.

On the command line there are ``tidegate stack up kafka``, ``status`` and ``down`` (in a checkout also
``python -m stack``). In code there are servers that live no longer than the process that started them::

    from stack.kafka import KafkaBroker
    from stack.registry import SchemaRegistry

    with KafkaBroker() as broker, SchemaRegistry() as registry:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        schemas = SchemaRegistryClient({"url": registry.url})

Where things are kept:

* jars and archives, once for all checkouts: ``$TIDEGATE_CACHE``, or ``tidegate`` in the XDG cache directory;
* what ``up`` started (record, log, configuration, data): ``run/<server>/`` of the checkout, which git
  ignores, or ``$TIDEGATE_RUN/<server>/``; without a checkout ``tidegate/run/<server>/`` in the XDG state
  directory;
* what a server in code keeps, if it is given no ``data``: a temporary directory, removed when it is closed.

Kafka Connect needs a broker: `up connect` takes the Kafka that is up, `ConnectWorker` is given an address.

Each server has two modules: one with a `Recipe` (``stack/processes/server.py``), which
``stack/recipes/catalogue.py`` lists, and one with a class for code, an `OwnedServer`
(``stack/processes/owned.py``).
"""
