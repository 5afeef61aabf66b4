"""Where the concurrent calls of a run are made, if not on threads of this process: other processes, a Dask cluster."""
