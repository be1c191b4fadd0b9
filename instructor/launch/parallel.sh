#!/usr/bin/env bash
# One machine, or several: a job for each line of shards.txt, started again where it was.
#     bash instructor/launch/parallel.sh SUBMISSIONS RESULTS SEED_FILE [options of parallel]
# More machines: add --sshlogin 4/host1,4/host2 --workdir . (the same folders on all of them).
# The log says which jobs are done; the same line again runs the others (--resume-failed).
set -euo pipefail
submissions=${1:?the folder or zip with the submissions}
results=${2:?a folder for the results}
seed=${3:?the file with the seed of the course}
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
mkdir -p "$results"
export OMP_NUM_THREADS=1

parallel --joblog "$results/jobs.log" --resume-failed --halt never "$@" \
    python -m instructor.grade "$submissions" --out "$results/shard-{#}" \
    --seed-file "$seed" --student '{}' -j 1 \
    :::: "$here/shards.txt"
