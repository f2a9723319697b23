"""Measures Tidemark's speed beside other stream processors, with the job of a shared harness."""
