"""Dask: a LocalCluster of this process, the address of a scheduler, or a client of the person.

    tasks -> checks, losses -> backend -> start

Only this package imports distributed, when it is used, and it uses its public interface only.
"""
