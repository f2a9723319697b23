"""The frame of every service process: its loop, health, stats, metrics and stop.

May import: runtime.client and everything below.
Start with: process.py, then serve.py.
"""
