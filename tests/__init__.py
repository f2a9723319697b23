"""The tests of Tidemark, in the layout of the package: ``tests/plan`` tests ``tidemark/plan``."""
