"""Dask: a LocalCluster of this process, the address of a scheduler, or a client of the person."""
