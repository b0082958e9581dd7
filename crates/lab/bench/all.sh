#!/bin/bash
# Every measurement that has a page, one after the other; `make bench-all` runs it, and a run that was
# interrupted continues behind the last one that ended. What has ended is noted with its time in
# bench-results/all-COMMIT, beside the output of each; to measure once more, remove its line, or the directory.
#
# ONLY       names of measurements without "bench-", instead of all
# BUSY_MAX   percent of the processors' time that others may take before each (default 10); on a machine that
#            stays busier for WAIT seconds (default 600) the run ends, as its figures would be no record
# MAKE       the make that runs them
set -u -o pipefail
cd "$(dirname "$0")/../../.." || exit 1
MAKE=${MAKE:-make} BUSY_MAX=${BUSY_MAX:-10} WAIT=${WAIT:-600}
# The table of speeds, and then by length.
ALL=(speed routing rnews cancels fairness web cluster cores feeds expire cnews newscache spool usenetfs large)

die() { echo "bench-all: $*" >&2; exit 1; }
say() { echo "bench-all: $*" >&2; }
target() {
    case $1 in speed) echo bench ;; large) echo lab-flat ;; *) echo "bench-$1" ;; esac
}

# busy: the percentage of the processors' time that was taken in a second.
busy() {
    local before after
    before=$(awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat)
    sleep 1
    after=$(awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat)
    awk -v before="$before" -v after="$after" 'BEGIN {
        split(before, b); split(after, a); printf "%d\n", 100 * (a[1] - b[1]) / (a[2] - b[2] + 0.001) }'
}
wait_until_idle() {
    local until=$((SECONDS + WAIT)) taken
    while taken=$(busy); [ "$taken" -gt "$BUSY_MAX" ]; do
        [ "$SECONDS" -lt "$until" ] || die "others take $taken % of this machine: measure when it is idle"
    done
}

trap 'exit 130' INT TERM
commit=$(git rev-parse --short=10 HEAD) || die "this is no clone"
[ -z "$(git status --porcelain --untracked-files=no -- ':!docs/bench')" ] || die "there are changes that are not committed"
record=bench-results/all-$commit
mkdir -p "$record"
touch "$record/ended"
failed=()
for name in ${ONLY:-"${ALL[@]}"}; do
    if grep -q "^$name " "$record/ended"; then
        say "$name was measured: $(grep "^$name " "$record/ended")"
        continue
    fi
    wait_until_idle
    begun=$SECONDS
    say "$name, at $(date +%H:%M)"
    # A limit that is missed fails the command, and its table is written all the same.
    $MAKE --no-print-directory "$(target "$name")" >"$record/$name.log" 2>&1
    status=$?
    took=$((SECONDS - begun))
    if [ "$status" -eq 0 ]; then result="all limits held"; else result="failed, or limits missed: see $record/$name.log"; failed+=("$name"); fi
    echo "$name $(date -u +%F) $((took / 60)) min $((took % 60)) s, $result" | tee -a "$record/ended" >&2
done
say "$(wc -l <"$record/ended") of ${#ALL[@]} are measured; pages that changed:"
git status --short -- docs/bench >&2
[ "${#failed[@]}" -eq 0 ] || die "not as they should be: ${failed[*]}"
