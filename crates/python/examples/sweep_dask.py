"""An experiment's points on Dask: here two processes on this computer, elsewhere a cluster."""

from distributed import Client, LocalCluster

import perforate

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(perforate.sweep("gtsm/fig3", client.get_executor(), out="fig3", quick=True))
