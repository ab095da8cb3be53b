"""Ray, which is named nowhere else."""
