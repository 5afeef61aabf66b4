"""Dask: a LocalCluster of this process, the address of a scheduler, or a client of the person.

    tasks -> backend -> checks -> start

Only this package imports distributed and dask (of which distributed is a part), when it is used, and it uses their public
interface only.
"""
