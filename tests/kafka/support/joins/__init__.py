"""Records for the pipelines with joins, and what their outputs hold by then."""
