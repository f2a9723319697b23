"""Avro contracts of Tidemark's topics; public topics are JSON unless asked for Avro."""
