#!/usr/bin/env bash
# What a machine with a GPU is to show, in one call of less than ten minutes: `./dev test cuda`.
#
#   gpu_suite.sh BIN PLUGIN FOLDER
#
# BIN has the programs, PLUGIN is libcoxswain_cuda.so (it may be missing), FOLDER takes logs and
# report.json: the card's name and for each part "passed", "failed" or "not run".
#
#   ops        every op case on the GPU against the CPU, in f32 and f64
#   memcheck   the same under compute-sanitizer
#   racecheck
#   job        2 PS x 2 workers on planted clicks, with kills: each update applied once
#   tables     the same with the tables in the GPU's memory
#   hash       the same with hash tables there
#   quality    their AUC against that of the CPU without kills: within what another seed changes
#
# Without a GPU it says so and tests nothing. COXSWAIN_GPUS=fake runs the parts job, tables, hash
# and quality on a fake GPU, and says that, too. Exit codes: 0: all parts passed, or there is no GPU; 1: a part
# failed, or could not be run on the card that is here.
set -uo pipefail

bin=$1 plugin=$2 folder=$3
readonly bin plugin folder
readonly noise=0.02  # of the AUC: runs of the job on 16 threads of a CPU differ by 0.009
declare -A result=([ops]='not run' [memcheck]='not run' [racecheck]='not run' [job]='not run'
  [tables]='not run' [hash]='not run' [quality]='not run')
readonly jobs=(job tables hash)  # parts that train with kills
readonly wanted_kills=4  # those of write_job
incomplete=0 cpu_auc=null job_seconds=120
declare -A auc applied scheduled kills
for name in "${jobs[@]}"; do
  auc[$name]=null applied[$name]=null scheduled[$name]=null kills[$name]=null
done

say() { printf '==> %s\n' "$*"; }

# part NAME SECONDS COMMAND...: its output is FOLDER/NAME.log.
part() {
  local name=$1 seconds=$2 code
  shift 2
  say "$name"
  timeout "$seconds" "$@" >"$folder/$name.log" 2>&1
  code=$?
  if ((code == 0)); then
    result[$name]=passed
  else
    result[$name]=failed
    say "$name failed (exit code $code; 124: it took too long); the end of $folder/$name.log:"
    tail -n 15 "$folder/$name.log"
  fi
}

# number FILE KEY: the first number of that name in a report, or null.
number() {
  local found
  found=$(grep -o "\"$2\": *[-0-9.e]*" "$1" 2>/dev/null | head -n 1 | grep -o '[-0-9.e]*$')
  printf '%s' "${found:-null}"
}

find_card() {
  card=''
  if [[ ${COXSWAIN_GPUS:-} == fake* ]]; then
    card='a fake GPU' job_seconds=400  # it computes on the CPU
  elif [[ -e $plugin ]] && command -v nvidia-smi >/dev/null; then
    card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
  fi
}

# test_cuda under compute-sanitizer, a process for each test case: alone it would take minutes. What
# test_cuda asks for in vain on purpose, such as too much memory, is no error. Left out is what uses
# no GPU, which the tool takes for a failure, and what fills its memory, which takes long with it.
sanitize() {
  local names  # the exit code is their number
  names=$("$bin/test_cuda" --list-test-names-only '~[no_gpu]~[much_memory]' | sed '/^$/d; s/,/\\,/g')
  [[ -n $names ]] || { echo "test_cuda lists no tests"; return 1; }
  xargs -d '\n' -P "$(nproc)" -I{} bash -c 'timeout 120 compute-sanitizer --tool "$1" \
    --report-api-errors no --error-exitcode 9 "$2" -w NoTests "$3" || { echo "failed: $3"; exit 1; }' \
    _ "$1" "$bin/test_cuda" {} <<<"$names"
}

sanitizers() {
  if ! command -v compute-sanitizer >/dev/null; then
    say "compute-sanitizer is not installed: memcheck and racecheck are not run"
    incomplete=1
    return
  fi
  export bin
  export -f sanitize
  part memcheck 130 bash -c 'sanitize memcheck'
  part racecheck 130 bash -c 'sanitize racecheck'
}

write_job() {
  cat >"$folder/job.yaml" <<END
name: gpu_suite
dataset: {format: criteo, path: clicks.tsv, hash_buckets: 2000}
split: {validation: 0.1}
model: {kind: dlrm, dim: 16, bottom: [64, 32], top: [64, 32]}
optimizer:
  table: {kind: lazy_adam, learning_rate: 0.004}
  dense: {kind: adam, learning_rate: 0.002}
train: {epochs: 3, batch_size: 256}
evaluate: {part: validation, metrics: [auc]}
END
  cat >"$folder/faults.yaml" <<END
seed: 4
faults:
  - {task: worker, at_update: [400, 900, 1600], restart_delay: 100ms}
  - {task: ps, at_update: [1200], restart_delay: 100ms}
END
}

train_job() {
  "$bin/coxswain" generate criteo --rows 200000 --ids 300 --quiet --force \
    --out "$folder/clicks.tsv" || { result[job]=failed; return; }
  write_job
  if ! COXSWAIN_GPUS=none timeout 60 "$bin/coxswain" train "$folder/job.yaml" --local 2x2 \
    --report "$folder/cpu.json" >"$folder/cpu.log" 2>&1; then
    say "the job on the CPU failed: $folder/cpu.log"
  fi
  cpu_auc=$(number "$folder/cpu.json" auc)
  train_with_kills job cpu
  train_with_kills tables gpu
  train_with_kills hash gpu --set dataset.hash_buckets=0
  result[quality]=passed
  local name
  for name in "${jobs[@]}"; do
    if ! awk -v a="${auc[$name]}" -v b="$cpu_auc" -v most="$noise" \
      'BEGIN { d = a - b; exit !(a + 0 > 0.5 && b + 0 > 0.5 && d <= most && -d <= most) }'; then
      result[quality]=failed
    fi
  done
  say "AUC on the GPU, with kills: ${auc[job]}, with tables there ${auc[tables]}," \
    "hash tables ${auc[hash]}; on the CPU, without: $cpu_auc"
}

# train_with_kills PART DEVICE [OPTION...]: with tables in the memory of that device.
train_with_kills() {
  local name=$1 device=$2 report=$folder/$1.json
  shift 2
  part "$name" "$job_seconds" "$bin/coxswain" train "$folder/job.yaml" --local 2x2 --set train.device=gpu \
    --set parameter_servers.table_device="$device" "$@" \
    --chaos "$folder/faults.yaml" --chaos-dir "$folder/run-$name" \
    --checkpoint-dir "$folder/run-$name/checkpoints" --checkpoint-every 1 --report "$report"
  applied[$name]=$(number "$report" applied) scheduled[$name]=$(number "$report" scheduled)
  kills[$name]=$(grep -o '"kill": *[0-9]*' "$report" | awk '{ n += $2 } END { print n + 0 }')
  auc[$name]=$(number "$report" auc)
  if [[ ${applied[$name]} == null || ${applied[$name]} != "${scheduled[$name]}" ]]; then
    result[$name]=failed
    say "$name: ${applied[$name]} updates applied, ${scheduled[$name]} scheduled"
  fi
  if ((kills[$name] != wanted_kills)); then
    result[$name]=failed
    say "$name: ${kills[$name]} kills, wanted $wanted_kills"
  fi
}

write_report() {
  local name
  {
    printf '{\n'
    if [[ -n $card ]]; then printf '  "card": "%s",\n' "$card"; else printf '  "card": null,\n'; fi
    for name in ops memcheck racecheck "${jobs[@]}" quality; do
      printf '  "%s": "%s",\n' "$name" "${result[$name]}"
    done
    printf '  "auc_cpu": %s,\n' "$cpu_auc"
    for name in "${jobs[@]}"; do
      printf '  "%s_with_kills": {"auc": %s, "updates_applied": %s, "updates_scheduled": %s, ' \
        "$name" "${auc[$name]}" "${applied[$name]}" "${scheduled[$name]}"
      printf '"kills": %s},\n' "${kills[$name]}"
    done
    printf '  "seconds": %s\n}\n' "$SECONDS"
  } >"$folder/report.json"
  say "report: $folder/report.json"
  cat "$folder/report.json"
}

mkdir -p "$folder"
# Of an earlier run; nothing else that may lie there.
rm -rf "${folder:?}"/run-{job,tables,hash}
rm -f "$folder"/{ops,memcheck,racecheck,job,tables,hash,cpu}.log
rm -f "$folder"/{cpu,job,tables,hash,report}.json
find_card
if [[ -z $card ]]; then
  say "no GPU here (or no plugin, or no nvidia-smi): nothing is tested"
  write_report
  exit 0
fi
say "on $card"
if [[ $card == 'a fake GPU' ]]; then
  say "the kernels run on GPUs only: ops, memcheck and racecheck are not run"
  train_job
else
  export COXSWAIN_CUDA_PLUGIN=$plugin COXSWAIN_REQUIRE_GPU=1
  part ops 150 "$bin/test_cuda"
  train_job
  sanitizers  # last: they take the longest
fi
write_report
for name in "${!result[@]}"; do
  [[ ${result[$name]} != failed ]] || exit 1
done
exit "$incomplete"
