#!/usr/bin/env bash
# ./dev itself: its scripts parse, it says what it can do, it makes the quickstart's data by the rules,
# and quickstart leaves no process behind, however it ends. Coxswain's programs are played by scripts.
#   dev_test.sh SOURCE_DIR
set -uo pipefail
unset COXSWAIN_BIN

source_dir=$1
# shellcheck source-path=SCRIPTDIR source=checks.sh
source "$source_dir/tests/tidy/checks.sh"

contains() { [[ $2 == *"$1"* ]] || { printf 'not found: %s\nin: %s\n' "$1" "$2" >&2; false; }; }

scripts() {
  local file
  for file in "$source_dir/dev" "$source_dir/.ci/run" "$source_dir"/tests/tidy/*.sh; do
    check "$file parses" bash -n "$file"
    check "$file is executable" test -x "$file"
  done
  if command -v shellcheck >/dev/null; then
    check "shellcheck has nothing to say" shellcheck "$source_dir/dev" "$source_dir/.ci/run" \
      "$source_dir"/tests/tidy/*.sh
  else
    echo "skipped: shellcheck is not installed"
  fi
}

command_line() {
  local out code command
  out=$("$source_dir/dev" help)
  equal "help's exit code" 0 $?
  for command in quickstart chaos soak build test check bench quality fuzz format help; do
    check "help tells of $command" contains "  $command" "$out"
  done
  out=$("$source_dir/dev" trian 2>&1 >/dev/null)
  code=$?
  equal "an unknown command's exit code" 2 "$code"
  check "an unknown command is named" contains "unknown command 'trian'" "$out"
  check "an unknown command gets help" contains "usage: ./dev COMMAND" "$out"
  "$source_dir/dev" quickstart --in-proces >/dev/null 2>&1
  equal "an unknown argument's exit code" 2 $?
  out=$("$source_dir/dev" check none 2>&1 >/dev/null)
  equal "an unknown check's exit code" 2 $?
  check "an unknown check is named" contains "unknown word 'none'" "$out"
  out=$("$source_dir/dev" check odr --minutes soon 2>&1 >/dev/null)
  equal "a check for no number of minutes, its exit code" 2 $?
  check "what is no number of minutes is named" contains "found 'soon'" "$out"
  local arguments
  for arguments in 'odr all' 'format all' 'today all' 'strict half' 'strict tests all' 'odr -v' \
    'sanitizers test_none' 'fuzz none'; do
    # shellcheck disable=SC2086  # words
    out=$("$source_dir/dev" check $arguments 2>&1 >/dev/null)
    equal "check $arguments: exit code" 2 $?
    check "check $arguments: the argument is named" contains "'${arguments##* }'" "$out"
  done
  "$source_dir/dev" fuzz none >/dev/null 2>"$tmp/fuzz.err"
  equal "an unknown fuzz target's exit code" 2 $?
  check "the fuzz targets are named" contains "there is no target 'none'; there is: arrow data " \
    "$(cat "$tmp/fuzz.err")"
  "$source_dir/dev" fuzz yaml --seconds soon >/dev/null 2>&1
  equal "fuzzing for no number of seconds, its exit code" 2 $?
  "$source_dir/dev" quickstart --data "$tmp/none.csv" >/dev/null 2>&1
  equal "a missing data file's exit code" 2 $?
}

# CI runs one turn a day, for 20 minutes.
fuzzing_has_its_turns() {
  local turns target line out few=$tmp/few
  turns=$(grep -oE "^  'fuzz [a-z ]+'" "$source_dir/dev" | tr -d "'")
  for target in "$source_dir"/tests/fuzz/corpus/*; do
    check "a turn fuzzes ${target##*/}" grep -qwE "fuzz .*${target##*/}" <<<"$turns"
  done
  while read -r line; do
    # shellcheck disable=SC2086  # words
    set -- $line
    check "the turn '$line' leaves time to build it" test "$#" -le 8
  done <<<"$turns"
  mkdir -p "$few" "$tmp/fuzzed/tests/fuzz/corpus/wire"
  cp "$source_dir/dev" "$tmp/fuzzed/"
  for target in bash dirname readlink; do ln -s "$(command -v "$target")" "$few/"; done
  out=$(PATH=$few "$tmp/fuzzed/dev" check fuzz wire 2>&1)
  equal "fuzzing without clang, its exit code" 0 $?
  check "fuzzing without clang says that it is skipped" contains "check fuzz: SKIPPED" "$out"
}

package_pairs() {
  local found wanted
  found=$(LC_ALL=C awk -f "$source_dir/examples/quickstart/packages.awk" <<'END' |
Package: zsh
Version: 5.9-4
Pre-Depends: dpkg
Depends: libc6 (>= 2.36), zsh-common (= 5.9-4), libcap2:any (>= 1:2.10) | libcap1
Recommends: libc6 (>= 2.36),libncursesw6
Suggests: zsh-doc
Description: shell
Package-Type: deb

Package: zsh+
Depends: ,  tab	, nospace(>= 1)
Enhances: zsh
END
    LC_ALL=C sort -t, -u -k1,1 -k2,2)
  wanted='zsh,libc6
zsh,libcap1
zsh,libcap2
zsh,libncursesw6
zsh,zsh-common
zsh,zsh-doc
zsh+,nospace(>=
zsh+,tab'
  equal "pairs of a package index" "$wanted" "$found"
}

# A tree with ./dev and scripts that play the three programs.
stage() {
  mkdir -p "$tmp/tree/examples" "$tmp/bin"
  cp "$source_dir/dev" "$tmp/tree/"
  : >"$tmp/tree/examples/packages.yaml"
  cp "$source_dir"/examples/{chaos,soak}.yaml "$tmp/tree/examples/"
  printf 'user,item\na,b\n' >"$tmp/data.csv"
  cat >"$tmp/bin/coxswain-ps" <<'END'
#!/usr/bin/env bash
name=$(basename "$0")-$4
echo $$ >"$FAKE/$name.pid"
[[ "$*" == "--port 0 --task $4" ]] || exit 9
[[ ${FAKE_DIES:-} != "$name" ]] || { echo "no luck today" >&2; exit 1; }
[[ ${FAKE_DEAF:-} != "$name" ]] || trap '' TERM
port=$((40000 + $4)) && [[ $name != *worker* ]] || port=$((41000 + $4))
echo "listening on 127.0.0.1:$port"
exec sleep 600
END
  cp "$tmp/bin/coxswain-ps" "$tmp/bin/coxswain-worker"
  cat >"$tmp/bin/coxswain" <<'END'
#!/usr/bin/env bash
echo $$ >"$FAKE/job.pid"
printf '%s\n' "$@" >"$FAKE/args"
if [[ -n ${FAKE_KILLS:-} ]]; then
  pid=$(cat "$FAKE/$FAKE_KILLS.pid")
  kill -KILL "$pid"
  while kill -0 "$pid" 2>/dev/null; do :; done
fi
[[ -z ${FAKE_TABLE:-} ]] || printf '\nchaos\n%s\n' "$FAKE_TABLE"
[[ -n ${FAKE_WAITS:-} ]] || exit "${FAKE_CODE:-0}"
sleep 600 &
trap 'kill %1; exit 75' TERM
trap 'kill %1; exit 130' INT
echo ready >"$FAKE/ready"
wait
END
  chmod +x "$tmp"/bin/*
  mkfifo "$tmp/ready"
  export FAKE=$tmp COXSWAIN_BIN=$tmp/bin
}

# No process of the last quickstart is left.
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

quickstart() {
  rm -f "$tmp"/*.pid
  "$tmp/tree/dev" quickstart --data "$tmp/data.csv" "$@" >"$tmp/out" 2>&1
}

quickstart_ends() {
  local name
  quickstart -- --set train.epochs=2
  equal "quickstart's exit code" 0 $?
  check "nothing runs after the job" none_left
  for name in coxswain-ps-0 coxswain-ps-1 coxswain-worker-0 coxswain-worker-1; do
    check "$name was started" test -e "$tmp/$name.pid"
  done
  check "it says where the logs are" contains "cluster.yaml, their logs: build/" "$(cat "$tmp/out")"
  check "it says where the report is" contains "build/quickstart/report.json" "$(cat "$tmp/out")"
  equal "the cluster file" \
    'ps: ["127.0.0.1:40000","127.0.0.1:40001"]
worker: ["127.0.0.1:41000","127.0.0.1:41001"]' "$(grep -v '^#' "$tmp/tree/build/quickstart/cluster.yaml")"
  equal "the job's arguments" "train examples/packages.yaml --cluster build/quickstart/cluster.yaml \
--report build/quickstart/report.json --model-dir build/quickstart/model \
--set dataset.path=$tmp/data.csv --set train.epochs=2" "$(tr '\n' ' ' <"$tmp/args" | sed 's/ $//')"

  FAKE_CODE=3 quickstart
  equal "a failed job's exit code" 3 $?
  check "nothing runs after a failed job" none_left

  quickstart --in-process
  equal "in one process: exit code" 0 $?
  check "in one process: told so" contains "--in-process" "$(cat "$tmp/args")"
  check "in one process: no daemon" test ! -e "$tmp/coxswain-ps-0.pid"

  FAKE_DIES=coxswain-worker-1 quickstart
  equal "a daemon that does not start: exit code" 4 $?
  check "a daemon that does not start is named" contains "worker-1 ended before" "$(cat "$tmp/out")"
  check "a daemon that does not start: its log is shown" contains "no luck today" "$(cat "$tmp/out")"
  check "a daemon that does not start: nothing is left" none_left

  FAKE_DEAF=coxswain-ps-1 quickstart
  equal "a daemon deaf to SIGTERM: exit code" 0 $?
  check "a daemon deaf to SIGTERM is killed" none_left
  equal "a daemon deaf to SIGTERM: what is said beside what ./dev says" "" "$(not_by_dev)"

  FAKE_KILLS=coxswain-worker-0 quickstart
  equal "a daemon that is killed: exit code" 0 $?
  check "a daemon that is killed is named" contains "worker-0 had ended by itself" "$(cat "$tmp/out")"
  equal "a daemon that is killed: what is said beside what ./dev says" "" "$(not_by_dev)"
}

# Lines of the last quickstart that ./dev has not said.
not_by_dev() { grep -v '^==> ' "$tmp/out"; }

# interrupted SIGNAL: starts a job that does not end, sends the signal to ./dev; sets $code.
interrupted() {
  local dev
  rm -f "$tmp"/*.pid
  set -m  # else bash makes a background process ignore SIGINT
  FAKE_WAITS=1 "$tmp/tree/dev" quickstart --data "$tmp/data.csv" >"$tmp/out" 2>&1 &
  dev=$!
  set +m
  exec 8<>"$tmp/ready"
  check "$1: the job starts" read -r -t 60 -u 8
  exec 8>&-
  kill "-$1" "$dev"
  wait "$dev" 2>/dev/null
  code=$?
}

quickstart_is_interrupted() {
  local code file pid
  interrupted TERM
  equal "SIGTERM reaches the job, whose exit code is passed on" 75 "$code"
  check "nothing runs after SIGTERM" none_left
  interrupted INT
  equal "Ctrl-C reaches the job, whose exit code is passed on" 130 "$code"
  check "nothing runs after Ctrl-C" none_left
  if command -v setpriv >/dev/null; then
    interrupted KILL
    equal "killed" 137 "$code"
    for file in "$tmp"/*.pid; do
      pid=$(cat "$file")
      # The kernel tells them when ./dev is gone; they are not this script's children.
      check "$(basename "$file" .pid) ends with ./dev" timeout 20 tail --pid="$pid" -f /dev/null
    done
  fi
}

chaos_runs() {
  "$tmp/tree/dev" chaos --data "$tmp/data.csv" -- --quiet >"$tmp/out" 2>&1
  equal "chaos's exit code" 0 $?
  equal "chaos's arguments" "train examples/packages.yaml --local 2x2 --checkpoint-every 3 \
--set train.epochs=10 --chaos examples/chaos.yaml --chaos-dir build/chaos/run \
--report build/chaos/report.json --set dataset.path=$tmp/data.csv --quiet" \
    "$(tr '\n' ' ' <"$tmp/args" | sed 's/ $//')"
  check "it says where chaos's report is" contains "build/chaos/report.json" "$(cat "$tmp/out")"
  FAKE_CODE=3 "$tmp/tree/dev" chaos --data "$tmp/data.csv" >"$tmp/out" 2>&1
  equal "a broken promise's exit code" 3 $?
  check "a broken promise: told where the logs are" contains "build/chaos/run/" "$(cat "$tmp/out")"
}

# soak RATES: runs ./dev soak with a job whose table says so; sets $code.
soak() {
  FAKE_TABLE="  hit_rate@10                  $1" "$tmp/tree/dev" soak --data "$tmp/data.csv" 4 5 \
    >"$tmp/out" 2>&1
  code=$?
}

soak_runs() {
  local code
  soak '0.5900  (without faults 0.5930)'
  equal "soak's exit code" 0 "$code"
  check "soak compares all seeds" contains \
    "over 2 seeds: 0.5900 with faults, 0.5930 without" "$(cat "$tmp/out")"
  check "soak's last seed reaches the faults" \
    grep -qx 'seed: 5' "$tmp/tree/build/soak/soak-5.yaml"
  check "soak's last seed reaches the job" contains "train.seed=5" "$(cat "$tmp/args")"
  soak '0.5600  (without faults 0.5930)'
  equal "soak's exit code when faults cost quality" 3 "$code"
  FAKE_CODE=3 soak '0.5900  (without faults 0.5930)'
  equal "soak's exit code for a broken promise" 3 "$code"
  "$tmp/tree/dev" soak fast >/dev/null 2>&1
  equal "soak wants seeds" 2 $?
}

# quality ACCURACY ARGS...: with a model of that accuracy, on data that has the files of two rows.
quality() {
  mkdir -p "$tmp/quality" "$tmp/public/iris"
  touch "$tmp/public/iris/iris_training.csv" "$tmp/public/iris/iris_test.csv"
  cat >"$tmp/quality/coxswain" <<'END'
#!/usr/bin/env bash
printf '%s\n' "$@" >>"$FAKE/quality.args"
while [[ $1 != --report ]]; do shift; done
printf '{"metrics": {"accuracy": %s}}' "$FAKE_ACCURACY" >"$2"
END
  chmod +x "$tmp/quality/coxswain"
  : >"$tmp/quality.args"
  local accuracy=$1
  shift
  FAKE_ACCURACY=$accuracy COXSWAIN_BIN=$tmp/quality COXSWAIN_DATA=$tmp/public \
    "$tmp/tree/dev" quality "$@" >"$tmp/out" 2>&1
  code=$?
}

quality_is_held_against_what_is_published() {
  local code
  mkdir -p "$tmp/tree/tests"
  cp -r "$source_dir/tests/quality" "$tmp/tree/tests/"
  quality 0.97 --seeds 2
  equal "quality's exit code where all is well" 0 "$code"
  check "quality says what it reaches" contains "iris: accuracy 0.9700, published 0.967" \
    "$(cat "$tmp/out")"
  check "quality says what it has no data for" contains "mnist: not run" "$(cat "$tmp/out")"
  equal "seeds that were trained" "train.seed=1 train.seed=2" \
    "$(grep train.seed "$tmp/quality.args" | tr '\n' ' ' | sed 's/ $//')"
  check "quality leaves a table" grep -q '^| iris | accuracy | 0.967 | 0.9700' \
    "$tmp/tree/build/quality/quality.md"
  quality 0.8 iris
  equal "quality's exit code for a figure that is worse" 1 "$code"
  check "what is worse is named" contains "worse than published by more than noise: iris" \
    "$(cat "$tmp/out")"
  quality 0.97 irises
  equal "quality's exit code for an unknown row" 2 "$code"
  quality 0.97 dna
  equal "quality's exit code without any data" 1 "$code"
}

scripts
command_line
fuzzing_has_its_turns
package_pairs
stage
quality_is_held_against_what_is_published
chaos_runs
soak_runs
quickstart_ends
quickstart_is_interrupted
report_checks
