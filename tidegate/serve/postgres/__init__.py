"""The PostgreSQL front: SUBSCRIBE for psql, psycopg, and whatever else speaks PostgreSQL's protocol."""
