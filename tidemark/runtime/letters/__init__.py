"""Dead letters of a pipeline on Kafka: found, counted, shown, and their records sent again.

May import: everything up to ``runtime.service``.  Start with: ``retry.py``, a record that is sent
again; ``reader.py`` reads letters, ``check.py`` runs the present program over a record.
"""
