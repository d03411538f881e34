"""The parts that every Spark job needs: session, files, logs, metrics, signals."""
