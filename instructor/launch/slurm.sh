#!/usr/bin/env bash
#SBATCH --job-name=lab15-grade
#SBATCH --array=1-16
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=4G
#SBATCH --time=02:00:00
#SBATCH --output=lab15-grade-%A-%a.log
# One job for each line of shards.txt. From the lab's folder:
#     sbatch instructor/launch/slurm.sh SUBMISSIONS RESULTS SEED_FILE
# Compute nodes need bubblewrap, user namespaces, and the virtual environment active at sbatch.
set -euo pipefail
submissions=${1:?the folder or zip with the submissions}
results=${2:?a folder for the results}
seed=${3:?the file with the seed of the course}
cd "${SLURM_SUBMIT_DIR:-.}"
glob=$(sed -n "${SLURM_ARRAY_TASK_ID}p" instructor/launch/shards.txt)
export OMP_NUM_THREADS=1

srun python -m instructor.grade "$submissions" --out "$results/shard-$SLURM_ARRAY_TASK_ID" \
    --seed-file "$seed" --student "$glob" -j "${SLURM_CPUS_PER_TASK:-1}"
