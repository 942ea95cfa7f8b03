#!/usr/bin/env bash
# What `cmake --install` lays out is enough to build examples/program, and the program runs.
#   installed_example_test.sh SOURCE_DIR BINARY_DIR
set -euo pipefail

source_dir=$1
binary_dir=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

step() { printf -- '-- %s\n' "$*"; }

step "install"
cmake --install "$binary_dir" --prefix "$tmp/prefix" >"$tmp/install.log"
for file in bin/coxswain bin/coxswain-ps bin/coxswain-worker; do
  [[ -f $tmp/prefix/$file ]] || { echo "$file is not installed" >&2; exit 1; }
done
# The public headers and nothing else: what is not there nobody depends on.
headers=("$source_dir"/{runtime,coordinator}/public/coxswain/*.h)
diff <(basename -a "${headers[@]}" | sort) \
  <(cd "$tmp/prefix/include/coxswain" && find . -type f | sed 's|^\./||' | sort)
[[ $(find "$tmp/prefix/include" -type f | wc -l) -eq ${#headers[@]} ]]
if find "$tmp/prefix" -name '*.cmake' -exec grep -lF -e "$source_dir" -e "$binary_dir" {} + >&2; then
  echo "the installed CMake files above name the tree that they were built in" >&2
  exit 1
fi
"$tmp/prefix/bin/coxswain" version

step "install from a build directory that cannot be written"
# In a namespace of its own, where the superuser cannot write there either.
read_only() {
  # shellcheck disable=SC2016  # the inner shell expands them
  unshare -rm sh -euc 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"; shift; exec "$@"' \
    sh "$binary_dir" "$@"
}
if read_only true 2>"$tmp/unshare.err"; then
  if read_only touch "$binary_dir/x" 2>/dev/null; then
    echo "$binary_dir can be written: the test tests nothing" >&2
    exit 1
  fi
  read_only cmake --install "$binary_dir" --prefix "$tmp/read-only" >"$tmp/install.log" 2>&1 ||
    { cat "$tmp/install.log" >&2; exit 1; }
  diff <(cd "$tmp/prefix" && find . | sort) <(cd "$tmp/read-only" && find . | sort)
  rm -rf "$tmp/read-only"
else
  step "skipped, no namespaces here: $(head -n 1 "$tmp/unshare.err")"
fi

step "build examples/program against it"
cp -r "$source_dir/examples/program" "$tmp/program"
cmake -S "$tmp/program" -B "$tmp/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/prefix"
cmake --build "$tmp/build"

step "run it"
cd "$tmp"
timeout 120 "$tmp/build/program" >"$tmp/out" 2>"$tmp/err" || { code=$?; cat "$tmp/out" "$tmp/err"; echo "exit code $code"; exit 1; }
cat "$tmp/out"
[[ -s $tmp/out ]] || { echo "the program printed nothing" >&2; exit 1; }
[[ ! -s $tmp/err ]] || { echo "nothing is wrong, but it logged:" >&2; cat "$tmp/err" >&2; exit 1; }

step "run the one with steps of its own"
timeout 120 "$tmp/build/own_steps" >"$tmp/out" 2>"$tmp/err" || { code=$?; cat "$tmp/out" "$tmp/err"; echo "exit code $code"; exit 1; }
cat "$tmp/out"
grep -qF '300 steps so far' "$tmp/out" || { echo "the counter has not counted each step" >&2; exit 1; }

step "run the one whose workers hold a lookup table"
timeout 120 "$tmp/build/lookup" >"$tmp/out" 2>"$tmp/err" || { code=$?; cat "$tmp/out" "$tmp/err"; echo "exit code $code"; exit 1; }
cat "$tmp/out"

step "train a model on the ratings that it wrote, and ask it by examples/program/predict"
cat >"$tmp/job.yaml" <<'END'
name: films
dataset: {path: ratings.csv}
features:
  - {name: user, kind: categorical}
  - {name: film, kind: categorical}
label: {column: rating}
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: film}, dim: 4}
train: {epochs: 2}
END
"$tmp/prefix/bin/coxswain" train job.yaml --in-process --quiet --model-dir model
rm ratings.csv job.yaml
mv model elsewhere
"$tmp/build/predict" elsewhere film=film4 user=user1 >"$tmp/out"
cat "$tmp/out"
grep -qE '^[1-5]\.[0-9]{4}$' "$tmp/out" || { echo "that is no rating" >&2; exit 1; }
