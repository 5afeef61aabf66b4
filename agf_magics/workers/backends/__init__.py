"""The backends that send chunks of calls to workers: executors, processes of this machine, Dask."""
