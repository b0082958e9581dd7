#!/bin/bash
# The speed table: INN, a server that does nothing (the null sink) and newsreel under the same load, alternating,
# in one run. `make bench` runs it. This script measures; `lab speed` makes the table of it.
#
# NNTPLOAD   source of the load generator
# CORPUS     a folder of articles, or one with a .tar.xz of them
# INN        folder of the script that runs private INN instances (needs root); if it is not installed, INN is
#            left out, with a message
# NEWSREEL   a server binary to measure; without it, one is built
# LAB        the lab's binary; without it, it is built
# BASE       an older server binary to measure in place of INN: no row may be more than 5 % worse (RUNS=9 is
#            needed to see so little)
# BENCH_DIR  working folder, emptied afterwards
# DOCS       where the release's record and the plots go (docs/bench; empty: nowhere; nor with QUICK or BASE,
#            unless it is set)
# QUICK=1    one run of a second each; otherwise medians of three
# RUNS, SECONDS_EACH, PORT: as named
#
# Before each feed free memory is touched once: on a virtual machine that returns free memory to its host, a
# server that fills the page cache would otherwise be measured at the host's speed of finding memory (a factor
# of three for 750 KB articles).
#
# Each server keeps its default durability. INN has no filter of its own, so [spam], which `newsreel init` turns
# on in shadow mode, is off but for a row that shows what it costs. Every run is one JSON line in
# bench-results/, below one about the machine. A row is MISSED if the ratio of the medians is below its limit.
# The null sink shows what the load generator can send and receive at most. INN's figures for GROUP, OVER,
# LIST ACTIVE, connect and many-connection ARTICLE are the better of two clients: an ordinary one, and one that
# acknowledges every segment at once (which spares INN the delayed-ACK stall).
set -u -o pipefail
cd "$(dirname "$0")/../../.." || exit 1
die() { echo "bench: $*" >&2; exit 1; }
say() { echo "bench: $*" >&2; }

NNTPLOAD=$(realpath -m "${NNTPLOAD:-../shared/bench/nntpload}")
INN=$(realpath -m "${INN:-../shared/peers/inn}")
CORPUS=$(realpath -m "${CORPUS:-../shared/corpus}")
BENCH_DIR=${BENCH_DIR:-/tmp/newsreel-bench}
PORT=${PORT:-11500}
if [ -n "${QUICK:-}" ]; then RUNS=${RUNS:-1} SECONDS_EACH=${SECONDS_EACH:-1}; else RUNS=${RUNS:-3} SECONDS_EACH=${SECONDS_EACH:-3}; fi
if [ -n "${QUICK:-}${BASE:-}" ]; then DOCS=${DOCS:-}; else DOCS=${DOCS-docs/bench}; fi
ARTICLES=100000 IHAVE_ARTICLES=20000 BIG_ARTICLES=2800 BIG_BYTES=750000 GROUPS_COUNT=3000
CHECK_STALLED_ARTICLES=10000   # INN answers 2,000/s in this row
BUFFER_MB=2048                 # two of them, in both servers
TICKS=$(getconf CLK_TCK)

SERVER_PID=
SINK_PID=
INN_RUNNING=
cleanup() {
    [ -n "$SERVER_PID" ] && kill "$SERVER_PID" 2>/dev/null && wait "$SERVER_PID" 2>/dev/null
    [ -n "$SINK_PID" ] && kill "$SINK_PID" 2>/dev/null
    [ -n "$INN_RUNNING" ] && "$INN/inn.sh" stop "$BENCH_DIR/inn"
    rm -rf "${BENCH_DIR:?}/newsreel" "$BENCH_DIR/inn" "$BENCH_DIR"/corpus*
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# --- tools and corpora ---------------------------------------------------------------------------------------------
prepare() {
    [ -f "$NNTPLOAD/Cargo.toml" ] || die "no load generator at $NNTPLOAD: set NNTPLOAD to the folder that has it"
    local target=${CARGO_TARGET_DIR:-target}
    target=$(realpath -m "$target")
    say "building nntpload and newsreel"
    (cd "$NNTPLOAD" && CARGO_TARGET_DIR="$target/nntpload" cargo build --release --quiet) || die "nntpload does not build"
    LOAD=$target/nntpload/release/nntpload
    if [ -z "${NEWSREEL:-}" ]; then
        cargo build --release --locked --quiet -p newsreel || die "newsreel does not build"
        NEWSREEL=$target/release/newsreel
    fi
    if [ -z "${LAB:-}" ]; then
        cargo build --release --locked --quiet -p lab --bin lab || die "lab does not build"
        LAB=$target/release/lab
    fi
    mkdir -p "$BENCH_DIR" bench-results
    BENCH_DIR=$(realpath "$BENCH_DIR")
    RESULTS=$PWD/bench-results/$(date +%Y%m%d-%H%M%S).jsonl
    "$LAB" machine >"$RESULTS" || die "the machine could not be looked at"
    local from=$CORPUS tar
    for tar in "$CORPUS"/*.tar.xz; do
        [ -f "$tar" ] || continue
        mkdir -p "$BENCH_DIR/corpus.d" && tar -xJf "$tar" -C "$BENCH_DIR/corpus.d" || die "cannot unpack $tar"
        from=$BENCH_DIR/corpus.d
    done
    say "making corpora"
    corpus t100k 1 $ARTICLES
    corpus ihave 2 $IHAVE_ARTICLES
    corpus big 3 $BIG_ARTICLES --size $BIG_BYTES
    say "$ARTICLES articles in $GROUPS_COUNT groups"
}
corpus() {
    local name=$1 seed=$2 count=$3
    shift 3
    "$LOAD" gen --from "$from" --count "$count" --groups $GROUPS_COUNT --seed "$seed" --out "$BENCH_DIR/corpus.$name" "$@" >/dev/null ||
        die "the corpus $name could not be made from $CORPUS"
}
have_inn() {
    [ -x /usr/lib/news/bin/innd ] || { say "INN IS LEFT OUT: it is not installed ($INN/inn.sh install)"; return 1; }
    [ -x "$INN/inn.sh" ] || { say "INN IS LEFT OUT: no inn.sh in $INN; set INN to its folder"; return 1; }
    [ "$(id -u)" = 0 ] || { say "INN IS LEFT OUT: its script needs root"; return 1; }
}

# --- servers: fresh NAME starts an empty one and sets ADDR, READ_ADDR, SERVER_PIDS ----------------------------------
fresh() {
    "stop_$1"
    sync
    "fresh_$1"
    settle
}
# Makes the host give the machine the memory that the next feed will take, and puts what will be sent into the page cache.
settle() {
    local free_mb
    [ -w /proc/sys/vm/drop_caches ] && echo 1 >/proc/sys/vm/drop_caches
    free_mb=$(awk '/^MemFree:/ { print int($2 / 1024) }' /proc/meminfo)
    [ "$free_mb" -gt 2048 ] && dd if=/dev/zero of=/dev/null bs=$((free_mb * 3 / 4))M count=1 2>/dev/null
    cat "$BENCH_DIR"/corpus.* >/dev/null 2>&1
    return 0
}
fresh_newsreel() { fresh_binary "$NEWSREEL"; }
fresh_base() { fresh_binary "$BASE"; }
# The configuration that init writes has [spam] in a paragraph of its own.
without_spam() { sed -i '/^\[spam\]/,/^$/d' "$1"; }
fresh_binary() {
    local dir=$BENCH_DIR/newsreel
    rm -rf "$dir"
    "$1" init --dir "$dir" --listen "127.0.0.1:$PORT" --groups "$BENCH_DIR/corpus.t100k.active" --buffer "$BUFFER_MB MiB" \
        --peer 127.0.0.1 --reader 127.0.0.1 --tls-listen "127.0.0.1:$((PORT + 1))" >/dev/null || die "newsreel init failed"
    [ -n "${SPAM:-}" ] || without_spam "$dir/newsreel.toml"
    "$1" serve --dir "$dir" >"$dir/log" 2>&1 &
    SERVER_PID=$!
    wait_port "$PORT" || { cat "$dir/log" >&2; die "newsreel did not start"; }
    ADDR=127.0.0.1:$PORT READ_ADDR=127.0.0.1:$PORT SERVER_PIDS=$SERVER_PID
    TLS_ADDR=127.0.0.1:$((PORT + 1)) TLS_CERTIFICATE=$dir/self-signed.crt READER_PIDS=$SERVER_PID
}
stop_newsreel() {
    [ -n "$SERVER_PID" ] || return 0
    kill "$SERVER_PID" && wait "$SERVER_PID"
    SERVER_PID=
}
stop_base() { stop_newsreel; }
fresh_sink() {
    "$LOAD" sink --listen "127.0.0.1:$((PORT + 20))" 2>/dev/null &
    SINK_PID=$!
    wait_port $((PORT + 20)) || die "the null sink did not start"
    ADDR=127.0.0.1:$((PORT + 20)) READ_ADDR=127.0.0.1:$((PORT + 20)) SERVER_PIDS=$SINK_PID
}
stop_sink() {
    [ -n "$SINK_PID" ] || return 0
    kill "$SINK_PID"
    wait "$SINK_PID" 2>/dev/null
    SINK_PID=
}
fresh_inn() {
    local dir=$BENCH_DIR/inn
    if [ ! -d "$dir" ]; then
        "$INN/inn.sh" setup "$dir" --storage cnfs --overview tradindexed --active "$BENCH_DIR/corpus.t100k.active" --cnfs-mb $BUFFER_MB \
            --port $((PORT + 10)) --reader-port $((PORT + 11)) --set "tlscertfile: $dir/etc/bench.crt" \
            --set "tlskeyfile: $dir/etc/bench.key" || die "INN could not be set up"
    else
        "$INN/inn.sh" reset "$dir" || die "INN could not be emptied"
    fi
    INN_RUNNING=1
    "$INN/inn.sh" start "$dir" >/dev/null || die "INN did not start"
    ADDR=127.0.0.1:$((PORT + 10)) READ_ADDR=127.0.0.1:$((PORT + 11)) SERVER_PIDS=$("$INN/inn.sh" pids "$dir" | tr '\n' ' ')
    inn_tls "$dir"
}
# A second nnrpd, for TLS; without it the rows over TLS are newsreel's alone, aloud.
inn_tls() {
    local dir=$1 name
    TLS_ADDR='' READER_PIDS=$(cat "$dir/run/nnrpd-$((PORT + 11)).pid")
    "$NEWSREEL" init --dir "$BENCH_DIR/certificate" --buffer 64KiB --tls-listen 127.0.0.1:0 >/dev/null 2>&1
    for name in crt key; do
        install -o news -m 400 "$BENCH_DIR/certificate/self-signed.$name" "$dir/etc/bench.$name" || { say "INN HAS NO TLS: no certificate"; return; }
    done
    rm -rf "$BENCH_DIR/certificate"
    "$INN/inn.sh" news "$dir" setsid /usr/lib/news/bin/nnrpd -D -f -S -b 127.0.0.1 -p $((PORT + 12)) >"$dir/log/nnrpd-tls.out" 2>&1 </dev/null &
    for _ in $(seq 100); do [ -s "$dir/run/nnrpd-$((PORT + 12)).pid" ] && break; sleep 0.05; done
    wait_port $((PORT + 12)) || { say "INN HAS NO TLS: $(cat "$dir/log/nnrpd-tls.out")"; return; }
    TLS_ADDR=127.0.0.1:$((PORT + 12)) TLS_CERTIFICATE=$dir/etc/bench.crt READER_PIDS="$READER_PIDS $(cat "$dir/run/nnrpd-$((PORT + 12)).pid")"
}
stop_inn() {
    [ -f "$BENCH_DIR/inn/run/nnrpd-$((PORT + 12)).pid" ] && kill "$(cat "$BENCH_DIR/inn/run/nnrpd-$((PORT + 12)).pid")"
    [ -n "$INN_RUNNING" ] && "$INN/inn.sh" stop "$BENCH_DIR/inn"
    INN_RUNNING=
}
wait_port() {
    local i
    for i in $(seq 200); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0; sleep 0.05; done
    return 1
}

# --- measuring -----------------------------------------------------------------------------------------------------
cpu_ticks() { # of all threads of the processes named, and of their children that have ended
    local pid sum=0 line
    for pid in "$@"; do
        read -r line <"/proc/$pid/stat" || continue
        set -- ${line##*) }
        sum=$((sum + ${12} + ${13} + ${14} + ${15}))
    done
    echo $sum
}
number() { sed -n "s/.*\"$1\":\\([0-9.]*\\).*/\\1/p" <<<"$2"; }
# result ROW SERVER VALUE JSON: keeps VALUE as a JSON line.
result() {
    [ -n "$3" ] || die "$1 of $2 gave nothing: $4"
    echo "{\"row\":\"$1\",\"server\":\"$2\",\"run\":$RUN,\"value\":$3,\"load\":${4:-null}}" >>"$RESULTS"
    printf '%-18s %-9s run %d  %s\n' "$1" "$2" "$RUN" "$3" >&2
}
# feed ROW SERVER CORPUS EXPECTED OPTIONS...: articles/s; leaves CPU microseconds for each article in CPU_US.
feed() {
    local row=$1 server=$2 corpus=$3 expected=$4 before after json
    shift 4
    sync
    before=$(cpu_ticks $SERVER_PIDS)
    json=$("$LOAD" feed --addr "$ADDR" --corpus "$BENCH_DIR/corpus.$corpus" "$@") || die "$row of $server failed: $json"
    after=$(cpu_ticks $SERVER_PIDS)
    [ "$(number articles "$json")" = "$expected" ] || die "$row of $server: not all $expected were answered: $json"
    case $row in check*) ;; *) [ "$(number accepted "$json")" = "$expected" ] || die "$row of $server: not all were accepted: $json" ;; esac
    CPU_US=$(awk "BEGIN { printf \"%.2f\", ($after - $before) / $TICKS * 1e6 / $expected }")
    JSON=$json
    case $row in
    big) result "$row" "$server" "$(number mb_per_s "$json")" "$json" ;;
    *) result "$row" "$server" "$(number articles_per_s "$json")" "$json" ;;
    esac
}
# reads ROW SERVER WHICH OPTIONS...: WHICH is the field that counts.
reads() {
    local row=$1 server=$2 which=$3 json value other groups=(--corpus "$BENCH_DIR/corpus.t100k")
    shift 3
    [ "$server" = sink ] && groups=() # it has groups of its own
    json=$("$LOAD" read --addr "$READ_ADDR" "${groups[@]}" --seconds "$SECONDS_EACH" "$@") || die "$row of $server failed: $json"
    value=$(number "$which" "$json")
    if [ "$server" = inn ] && [ "$row" != article-1x1 ]; then
        other=$("$LOAD" read --addr "$READ_ADDR" --corpus "$BENCH_DIR/corpus.t100k" --seconds "$SECONDS_EACH" --quickack "$@") || die "$row of $server failed"
        if awk "BEGIN { exit !($(number "$which" "$other") > $value) }"; then json=$other value=$(number "$which" "$other"); fi
    fi
    result "$row" "$server" "$value" "$json"
}
# layers SERVER LAYERS: ARTICLE at 64 connections over plain TCP, TLS, COMPRESS or both, with the server's CPU for each.
layers() {
    local server=$1 layers=$2 address=$READ_ADDR certificate=() before after json
    case $layers in tls*) address=$TLS_ADDR certificate=(--certificate "$TLS_CERTIFICATE") ;; esac
    [ -n "$address" ] || return 0
    before=$(cpu_ticks $READER_PIDS)
    json=$("$LAB" tls-load --addr "$address" --layers "$layers" "${certificate[@]}" --seconds "$SECONDS_EACH") || die "$layers of $server failed"
    sleep 0.5 # until the children of nnrpd have ended
    after=$(cpu_ticks $READER_PIDS)
    result "layers-$layers" "$server" "$(number ops_per_s "$json")" "$json"
    result "layers-$layers-cpu" "$server" "$(awk "BEGIN { printf \"%.2f\", ($after - $before) / $TICKS * 1e6 / $(number ops "$json") }")" "$json"
}
# What the load generator can do at most: without layers, and without what the sink only pretends to.
measure_sink() {
    fresh sink
    feed takethis-1 sink t100k $ARTICLES --conns 1 --window 100
    feed takethis-4 sink t100k $ARTICLES --conns 4 --window 100
    feed check sink t100k $ARTICLES --check-only --window 100 --refill 1
    reads article-64x16 sink ops_per_s --op article --by number --conns 64 --pipeline 16
    reads article-1x1 sink ops_per_s --op article --by number --conns 1 --pipeline 1
    reads over sink rows_per_s --op over --group biggest --conns 1
    feed ihave sink ihave $IHAVE_ARTICLES --ihave
    feed big sink big $BIG_ARTICLES --window 8
    stop_sink
}
measure() {
    local s=$1
    fresh "$s"
    feed takethis-1 "$s" t100k $ARTICLES --conns 1 --window 100
    result takethis-1-cpu "$s" "$CPU_US" "$JSON"
    if [ "$s" != inn ]; then
        SPAM=1 fresh "$s"
        feed spam "$s" t100k $ARTICLES --conns 1 --window 100
        result spam-cpu "$s" "$CPU_US" "$JSON"
    fi
    fresh "$s"
    feed takethis-4 "$s" t100k $ARTICLES --conns 4 --window 100
    result takethis-4-cpu "$s" "$CPU_US" "$JSON"
    for _ in 1 2 3; do # it takes a tenth of a second
        feed check "$s" t100k $ARTICLES --check-only --window 100 --refill 1
    done
    feed check-refill-25 "$s" t100k $CHECK_STALLED_ARTICLES --check-only --window 100 --refill 25 --limit $CHECK_STALLED_ARTICLES
    reads article-64x16 "$s" ops_per_s --op article --by number --conns 64 --pipeline 16
    reads article-1x1 "$s" ops_per_s --op article --by number --conns 1 --pipeline 1
    reads over "$s" rows_per_s --op over --group biggest --conns 1
    reads group "$s" ops_per_s --op group --conns 1
    reads list-active "$s" ops_per_s --op listactive --conns 1
    reads connect "$s" ops_per_s --op connect --conns 1
    for layers in plain tls compress tls-compress; do layers "$s" $layers; done
    feed ihave "$s" ihave $IHAVE_ARTICLES --ihave
    fresh "$s"
    feed big "$s" big $BIG_ARTICLES --window 8
    "stop_$s"
}

prepare
SERVERS='sink newsreel'
if [ -n "${BASE:-}" ]; then
    SERVERS='base newsreel'
elif have_inn; then
    SERVERS='inn sink newsreel'
fi
for RUN in $(seq "$RUNS"); do
    for server in $SERVERS; do
        case $server in sink) measure_sink ;; *) measure "$server" ;; esac
    done
done
# The rows' names, limits and plots are in crates/lab/src/speed/rows.rs.
"$LAB" speed --runs "$RESULTS" ${DOCS:+--docs "$DOCS"} | tee "${RESULTS%.jsonl}.txt"
HELD=$?
echo "runs: ${RESULTS#"$PWD"/}"
exit $HELD
