"""The language: what a user writes in a pipeline module.

Builds a logical graph, and checks every argument in the call that passes it.
May import: plan, serde (only the checks of names), core.
Start with: pipeline.py, then stream.py and keyed.py, in the order in which a user calls them.
"""
