"""Real servers for development, tests and the demo: no Docker, no root, nothing installed system-wide.

On the command line, ``python -m stack up kafka``, ``status`` and ``down``; in code, a broker that lives
no longer than the process that started it::

    from stack.kafka import KafkaBroker

    with KafkaBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

Where things are kept:

* jars, once for all checkouts: ``$TIDEGATE_CACHE``, or ``tidegate`` in the XDG cache directory;
* what ``up`` started (record, log, configuration, data): ``run/<server>/`` of the checkout, which git
  ignores, or ``$TIDEGATE_RUN/<server>/``;
* a ``KafkaBroker`` without ``data``: a temporary directory, removed when it is closed.

A server is one module with a `Recipe` (``stack/server.py``), listed in ``stack/recipes.py``.
"""
