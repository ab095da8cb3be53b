"""Ray's nodes started over ssh, Slurm and Kubernetes."""
