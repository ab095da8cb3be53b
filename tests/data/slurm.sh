#!/bin/bash
# By `venturi cluster slurm`. To submit it: sbatch THIS_FILE
# Inside an allocation of 4 nodes (salloc --nodes=4): bash THIS_FILE
#SBATCH --job-name=venturi
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --output=%x-%j.out
#SBATCH --exclusive
#SBATCH --time=0:30:00
#SBATCH --partition=short
#SBATCH --constraint=haswell
set -eu
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Whoever has this may run programs as you on these nodes: it stays in the job's environment.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
# By which address the first node is reached, which only that node can tell.
head=$(srun --nodes=1 --ntasks=1 --nodelist="$first" \
    /opt/venturi/bin/python -m venturi.cluster.up.slurm_task --interface 10.0.0.0/24 address)
# A task a node: the first one has Ray's head and runs the scenario, the others join, and wait
# for its end. No binding to CPUs: the streams are to have the whole node.
srun --nodes=4 --ntasks=4 --ntasks-per-node=1 --cpu-bind=none \
    --kill-on-bad-exit=1 --wait=60 \
    /opt/venturi/bin/python -m venturi.cluster.up.slurm_task --interface 10.0.0.0/24 node --first "$first" --head "$head" -- \
    'my scenario.toml' --streams 1,2 --out run-1
