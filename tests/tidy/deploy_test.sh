#!/usr/bin/env bash
# What deploy/ ships fits the programs: it uses only options that they have, systemd takes the units,
# and the Slurm script lays out a cluster, passes the job's exit code on and leaves nothing behind.
# Slurm is played by scripts.
#   deploy_test.sh SOURCE_DIR BINARY_DIR
set -uo pipefail

source_dir=$1
binary_dir=$2
# shellcheck source-path=SCRIPTDIR source=checks.sh
source "$source_dir/tests/tidy/checks.sh"

# has_options PROGRAM [SUBCOMMAND] -- OPTION...
has_options() {
  local command=() help option
  while [[ $1 != -- ]]; do
    command+=("$1")
    shift
  done
  shift
  help=$("$binary_dir/bin/${command[0]}" "${command[@]:1}" --help 2>&1)
  for option in "$@"; do
    check "${command[*]} has the option $option" grep -qwF -e "$option" <<<"$help"
  done
}

options() {
  local found
  has_options coxswain-ps -- --cluster --task --secret-file --root --metrics
  has_options coxswain-worker -- --cluster --task --secret-file --root --metrics
  has_options coxswain train -- --cluster --report --model-dir --set --checkpoint-dir --resume --secret-file \
    --connect-timeout --metrics
  has_options coxswain serve -- --model-dir --follow --name --http --threads --drain-seconds
  # And deploy/ gives no other to them.
  found=$(cat "$source_dir"/deploy/systemd/*.service "$source_dir"/deploy/kubernetes/*.yaml |
    tr '\n' ' ' | grep -oE 'coxswain(-ps|-worker)?( train| serve)? [^;]*' | grep -oE -- ' --[a-z][a-z-]*' |
    sort -u | tr -d ' \n')
  equal "the options that deploy/ uses" \
    "--checkpoint-dir--cluster--connect-timeout--follow--metrics--model-dir--name--report--resume--root--secret-file--task" "$found"
}

# PrivateDevices= would hide the GPUs from the daemons that use them, whatever --gpus says.
gpus() {
  local unit
  for unit in coxswain-ps coxswain-worker; do
    check "$unit@.service lets it see GPUs" \
      bash -c "! grep -qiE '^(PrivateDevices=(yes|true|on|1)|DevicePolicy=)' '$source_dir/deploy/systemd/$unit@.service'"
  done
}

units() {
  if ! command -v systemd-analyze >/dev/null; then
    echo "skipped: systemd-analyze is not installed"
    return
  fi
  local unit
  mkdir "$tmp/units"
  for unit in coxswain-ps coxswain-worker coxswain-train coxswain-serve; do
    # Of its own it looks for the programs where they will be installed.
    sed 's#/usr/local/bin/coxswain[a-z-]*#/bin/true#' "$source_dir/deploy/systemd/$unit@.service" \
      >"$tmp/units/$unit@0.service"
    check "systemd takes $unit@.service" systemd-analyze verify "$tmp/units/$unit@0.service"
  done
}

stage() {
  mkdir "$tmp/bin" "$tmp/submit"
  cat >"$tmp/bin/scontrol" <<'END'
#!/usr/bin/env bash
[[ "$*" == "show hostnames node[1-3]" ]] && printf 'node1\nnode2\nnode3\n'
END
  cat >"$tmp/bin/srun" <<'END'
#!/usr/bin/env bash
all="$*"
while [[ $1 == --* ]]; do
  [[ $1 != --nodelist=* ]] || node=${1#--nodelist=}
  shift
done
echo $$ >"$FAKE/$1-$5.pid"
echo "$all" >"$FAKE/$1-$5.srun"
echo "$node $*" >"$FAKE/$1-$5.args"
echo "$node" >>"$FAKE/$1-$5.starts"
[[ ${FAKE_ENDS_ONCE:-} != "$1-$5" || $(grep -c . "$FAKE/$1-$5.starts") != 1 ]] || exit 1
if [[ ${FAKE_TOLD:-} == "$1" ]]; then
  until [[ -e $FAKE/told ]]; do sleep 0.1; done
  exit 0
fi
exec sleep 600
END
  cat >"$tmp/bin/coxswain" <<'END'
#!/usr/bin/env bash
if [[ $1 == make-secret ]]; then
  echo secret >"$2"
  exit
fi
echo $$ >"$FAKE/job.pid"
echo "$*" >"$FAKE/args"
# A job does nothing before its daemons are there; one that ended earlier would end them unstarted.
for _ in {1..600}; do
  started=("$FAKE"/coxswain-*.args)
  ((${#started[@]} < SLURM_NTASKS)) || break
  sleep 0.1
done
[[ -n ${FAKE_WAITS:-} ]] || exit "${FAKE_CODE:-0}"
sleep 600 &
trap 'kill %1; exit 75' TERM
echo ready >"$FAKE/ready"
wait
END
  cat >"$tmp/bin/scancel" <<'END'
#!/usr/bin/env bash
echo "$*" >"$FAKE/scancel.args"
for file in "$FAKE"/coxswain-*.pid; do kill -TERM "$(cat "$file")"; done 2>/dev/null
END
  chmod +x "$tmp"/bin/*
  mkfifo "$tmp/ready"
  export FAKE=$tmp SLURM_JOB_ID=515 SLURM_JOB_NODELIST='node[1-3]' SLURM_NTASKS=5
  export SLURM_TASKS_PER_NODE='1,2(x2)' COXSWAIN_WORKERS=3
  PATH=$tmp/bin:$PATH
}

none_left() {
  local file left=0
  for file in "$tmp"/*.pid; do
    if kill -0 "$(cat "$file")" 2>/dev/null; then
      echo "still runs: $file" >&2
      left=1
    fi
  done
  return $left
}

slurm() {
  local script=$source_dir/deploy/slurm/coxswain.sbatch pid
  stage
  cd "$tmp/submit" || return
  bash "$script" job.yaml --set train.epochs=2
  equal "the script's exit code" 0 $?
  check "no step is left" none_left
  equal "Slurm is asked to end the steps" "--signal=TERM --quiet 515" "$(cat "$tmp/scancel.args")"
  equal "the cluster file" 'ps:
  - node1:28384
  - node2:28384
worker:
  - node3:28384
  - node2:28385
  - node3:28385' "$(cat job.515/cluster.yaml)"
  check "steps take no memory from each other" grep -q -- " --mem=0 " "$tmp/coxswain-ps-0.srun"
  equal "a step's arguments" "node1 coxswain-ps --cluster $tmp/submit/job.515/cluster.yaml --task 0 \
--root $tmp/submit" "$(cat "$tmp/coxswain-ps-0.args")"
  check "the job has a secret" test -s job.515/secret
  equal "the job's arguments" "train job.yaml --cluster $tmp/submit/job.515/cluster.yaml \
--report $tmp/submit/job.515/report.json --model-dir $tmp/submit/job.515/model \
--checkpoint-dir $tmp/submit/job.515/checkpoints --resume --connect-timeout 300 --set train.epochs=2" "$(cat "$tmp/args")"
  # A daemon that ends by itself is started again, and not when the job is over.
  rm "$tmp"/*.starts
  FAKE_WAITS=1 FAKE_ENDS_ONCE=coxswain-worker-1 bash "$script" job.yaml 2>"$tmp/again.err" &
  pid=$!
  exec 8<>"$tmp/ready"
  check "the job starts" read -r -t 60 -u 8
  check "the daemon is started again" timeout 60 bash -c \
    "until [[ \$(grep -c . '$tmp/coxswain-worker-1.starts') == 2 ]]; do sleep 0.1; done"
  kill -TERM "$pid"
  wait "$pid"
  equal "its job's exit code" 75 $?
  check "no step is left after a second start" none_left
  exec 8>&-
  equal "the other daemons were started once" 1 "$(grep -c . "$tmp/coxswain-worker-0.starts")"
  check "its end is told" grep -q "worker 1 ended with 1" "$tmp/again.err"
  # Slurm that preempts tells the daemons, and them alone.
  FAKE_WAITS=1 FAKE_TOLD=coxswain-ps bash "$script" job.yaml &
  pid=$!
  exec 8<>"$tmp/ready"
  check "the job starts" read -r -t 60 -u 8
  exec 8>&-
  touch "$tmp/told"
  wait "$pid"
  equal "daemons that were told to end are the end of the job" 75 $?
  check "no step is left after the daemons' end" none_left
  FAKE_CODE=3 bash "$script" job.yaml
  equal "a failed job's exit code" 3 $?
  SLURM_NTASKS=3 bash "$script" job.yaml 2>/dev/null
  equal "too few tasks: exit code" 2 $?

  FAKE_WAITS=1 bash "$script" job.yaml &
  pid=$!
  exec 8<>"$tmp/ready"
  check "the job starts" read -r -t 60 -u 8
  exec 8>&-
  kill -TERM "$pid"
  wait "$pid"
  equal "SIGTERM reaches the job, whose exit code is passed on" 75 $?
  check "no step is left after SIGTERM" none_left
}

options
gpus
units
slurm
report_checks
