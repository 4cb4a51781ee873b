"""An experiment's points in two jobs of submitit's: here on this computer, with `slurm` in a job array."""

import submitit

import perforate

executor = submitit.AutoExecutor(folder="jobs", cluster="local")
executor.update_parameters(timeout_min=30)
print(perforate.sweep("gtsm/fig3", executor, out="fig3", workers=2, quick=True))
