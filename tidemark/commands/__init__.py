"""The command line, and the entry point of all services.

May import: everything.
Start with: cli.py; service.py runs a service.
"""
