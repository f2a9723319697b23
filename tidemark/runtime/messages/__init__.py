"""Messages in bulk, between Kafka's client and the services: by the native library, or in Python.

May import: runtime.config and everything below runtime.
Start with: received.py (what a reader returns) and native_reader.py.
"""
