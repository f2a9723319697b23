"""One module a service, each a process of its own; no semantics live here."""
