"""Dask: a LocalCluster of this process, the address of a scheduler, or a client of the person.

    tasks -> checks, flight, losses, programs -> backend -> start

Only this package imports distributed, and dask, which has the settings of distributed. It imports
them when they are used, and uses their public interface only.
"""
