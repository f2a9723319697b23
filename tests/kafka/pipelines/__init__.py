"""Pipelines that services load: a test gives ``Stack`` the module of one.

``build(name)`` returns the pipeline under a name of its own, so that tests share a broker; a
service finds its ``pipeline`` with the name that TEST_PIPELINE says.
"""
