"""What every service process has: the loop, settings, health, stats, stopping.

May import: runtime.client and everything below.
Start with: process.py, then serve.py.
"""
