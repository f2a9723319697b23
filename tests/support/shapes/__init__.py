"""Eight public shapes of data: the pipeline that reads them, records, and results."""
