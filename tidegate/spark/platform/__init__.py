"""What every Spark job needs: session, files, logs, metrics, signals."""
