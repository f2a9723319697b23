"""The command line and the entry point of services.

May import: everything.
Start with: cli.py; service.py runs a service.
"""
