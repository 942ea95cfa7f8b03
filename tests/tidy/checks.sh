#!/usr/bin/env bash
# What the tests of scripts share: a directory $tmp that goes with the test, processes whose ids lie in
# $tmp/*.pid and go with it too, and checks that are counted. For `source`.

tmp=$(mktemp -d)
failures=0
checks=0

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  failures=$((failures + 1))
}

# check WHAT COMMAND...: the command must succeed.
check() {
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" || fail "$what"
}

# equal WHAT WANTED FOUND
equal() {
  checks=$((checks + 1))
  [[ $2 == "$3" ]] || fail "$1: wanted '$2', found '$3'"
}

# The last command of a test.
report_checks() {
  printf '%d checks, %d failed\n' "$checks" "$failures"
  ((checks > 0 && failures == 0))
}

cleanup() {
  local file
  for file in "$tmp"/*.pid; do
    [[ -e $file ]] && kill -KILL "$(cat "$file")" 2>/dev/null
  done
  rm -rf "$tmp"
}
trap cleanup EXIT
