#!/bin/bash
# Makes the traces of this folder again: ./record.sh [NAME…]
# Needs: apt-get install qemu-user redis-server mummer hpcc xz-utils stockfish gcc g++ python3 \
#        liblemon-dev libquantum-dev jellyfish meep minimap2
# Variables: PERFORATE (the command; default: this repository's), WORK (scratch, about 1.5GB).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-/tmp/perforate-traces}
mkdir -p "$work"

perforate() {
    if [ -n "${PERFORATE:-}" ]; then
        "$PERFORATE" "$@"
    else
        cargo run --release --quiet --manifest-path "$here/../Cargo.toml" -- "$@"
    fi
}

# record NAME SKIP INSTRUCTIONS PROGRAM ARGUMENTS…
record() {
    local name=$1 skip=$2 instructions=$3
    shift 3
    perforate record --level 19 -o "$here/$name.trace" \
        --skip "$skip" --instructions "$instructions" -- "$@"
}

# sample NAME SKIP WINDOW/PERIOD INSTRUCTIONS PROGRAM ARGUMENTS…
# Windows at equal distances, INSTRUCTIONS in all of them together.
sample() {
    local name=$1 skip=$2 windows=$3 instructions=$4
    shift 4
    perforate record --level 19 -o "$here/$name.trace" \
        --skip "$skip" --sample "$windows" --instructions "$instructions" -- "$@"
}

redis() {
    # So many keys that they are many times the reach of a TLB, and so few that each page is read several
    # times in the recording: what misses then misses for want of capacity.
    local port=7411 folder=$work/redis keys=200000
    if [ ! -f "$folder/dump.rdb" ]; then
        mkdir -p "$folder"
        redis-server --port $port --dir "$folder" --save '' --daemonize yes >/dev/null
        sleep 1
        redis-benchmark -p $port -t set -r $keys -n $((4 * keys)) -d 200 -P 64 -q >/dev/null
        redis-cli -p $port save
        redis-cli -p $port shutdown nosave
    fi
    # Loading takes about 740 million instructions; the rest of what is skipped is GETs.
    record redis "${REDIS_SKIP:-1500000000}" 50000000 \
        redis-server --port $port --dir "$folder" --save '' --appendonly no >/dev/null &
    local recorder=$!
    while kill -0 $recorder 2>/dev/null; do
        if redis-cli -p $port get key:000000000000 2>/dev/null | grep -qv LOADING; then
            redis-benchmark -p $port -t get -r $keys -n 100000000 -P 16 -c 50 -q >/dev/null || true
        fi
        sleep 0.5
    done
    wait $recorder
}

mummer() {
    local folder=$work/mummer
    mkdir -p "$folder"
    [ -f "$folder/query.fa" ] || python3 "$here/programs/genome.py" 24000000 2000000 "$folder"
    record mummer "${MUMMER_SKIP:-7900000000}" 50000000 \
        /usr/bin/mummer -maxmatch -l 20 "$folder/reference.fa" "$folder/query.fa" >/dev/null
}

xz() {
    local input=$work/xz-input
    # Text-like: words drawn from a large vocabulary, so that matches exist but are short.
    [ -f "$input" ] || python3 "$here/programs/words.py" 40000000 >"$input"
    record xz "${XZ_SKIP:-6000000000}" 40000000 /usr/bin/xz -9 --stdout --threads=1 "$input" >/dev/null
}

xz-compress() {
    # More than twice the 64MB of the dictionary.
    local input=$work/xz-long
    [ -f "$input" ] || python3 "$here/programs/words.py" 160000000 >"$input"
    sample xz-compress "${XZ_COMPRESS_SKIP:-20000000000}" 1M/16G 5000000 \
        /usr/bin/xz -9 --stdout --threads=1 "$input" >/dev/null
}

hpcc() {
    local folder=$work/hpcc
    mkdir -p "$folder"
    cp "$here/programs/hpccinf.txt" "$folder"
    (cd "$folder" && record hpcc "${HPCC_SKIP:-6000000000}" 50000000 /usr/bin/hpcc)
}

bfs() {
    gcc -O2 -o "$work/bfs" "$here/programs/bfs.c"
    record bfs "${BFS_SKIP:-112600000000}" 20000000 "$work/bfs" 24 8 >/dev/null
}

stockfish() {
    record stockfish "${STOCKFISH_SKIP:-4000000000}" 40000000 \
        /usr/games/stockfish bench 512 1 18 default depth >/dev/null
}

simplex() {
    # -w: the compiler takes nodes of the library for unset.
    g++ -O2 -std=c++17 -w -o "$work/simplex" "$here/programs/simplex.cpp"
    sample simplex "${SIMPLEX_SKIP:-20000000000}" 1M/500M 22000000 \
        "$work/simplex" 2000000 6 2000000 >/dev/null
}

libquantum() {
    gcc -O2 -fopenmp -o "$work/libquantum" "$here/programs/libquantum.c" -lquantum -lm
    OMP_NUM_THREADS=1 sample libquantum "${LIBQUANTUM_SKIP:-20000000000}" 6M/5G 84000000 \
        "$work/libquantum" 3233 7 >/dev/null
}

ethernet() {
    g++ -O2 -std=c++17 -o "$work/ethernet" "$here/programs/ethernet.cpp"
    sample ethernet "${ETHERNET_SKIP:-3000000000}" 1M/1G 12000000 "$work/ethernet" 20480 64 >/dev/null
}

ethernet-large() {
    g++ -O2 -std=c++17 -o "$work/ethernet" "$here/programs/ethernet.cpp"
    sample ethernet-large "${ETHERNET_LARGE_SKIP:-6000000000}" 1M/1G 12000000 \
        "$work/ethernet" 40960 64 >/dev/null
}

jellyfish() {
    local folder=$work/jellyfish
    mkdir -p "$folder"
    [ -f "$folder/reads.fa" ] ||
        python3 "$here/programs/genome.py" 12000000 1000 "$folder" 9600
    record jellyfish "${JELLYFISH_SKIP:-6000000000}" 40000000 \
        /usr/bin/jellyfish count -m 21 -s 64M -t 1 -C -o "$folder/counts.jf" "$folder/reads.fa"
}

meep() {
    OMP_NUM_THREADS=1 record meep "${MEEP_SKIP:-30000000000}" 40000000 \
        /usr/bin/meep edge=10 resolution=16 "$here/programs/cavity.ctl" >/dev/null
}

minimap2() {
    local folder=$work/minimap2
    mkdir -p "$folder"
    [ -f "$folder/reads.fa" ] || python3 "$here/programs/reads.py" 8000000 8 800 "$folder"
    sample minimap2 "${MINIMAP2_SKIP:-4000000000}" 2M/4000M 84000000 \
        /usr/bin/minimap2 -x ava-ont -t 1 "$folder/reads.fa" "$folder/reads.fa" >/dev/null
}

zeus() {
    gcc -O2 -o "$work/zeus" "$here/programs/zeus.c" -lm
    sample zeus "${ZEUS_SKIP:-8000000000}" 6M/1400M 144000000 "$work/zeus" 160 10 >/dev/null
}

all="redis mummer xz xz-compress hpcc bfs stockfish simplex libquantum ethernet
    ethernet-large jellyfish meep minimap2 zeus"
for name in "${@:-$all}"; do
    for one in $name; do
        "$one"
    done
done
