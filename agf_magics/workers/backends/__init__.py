"""What sends chunks to workers: executors, own processes, Dask."""
