#!/usr/bin/env bash
# Training under a budget beside training that the operating system swaps: the same network, the same
# steps, the same disk.
#
#   against_swap.sh [FOLDER] [SHARE] [STEPS] [MORE ARGUMENTS OF train...]
#
# FOLDER (/var/tmp) is where both spill, SHARE (50) is the percentage of the step's peak that either
# may hold, STEPS (24) is how many are trained. The rest goes to `vtensor-bench train`
# (--model resnet20).
#
# With vTensor, the arena has SHARE of the peak and pieces go to a sealed file in FOLDER. With swap,
# nothing of vTensor moves: the process sits in a memory cgroup that has what the process needs beside
# its tensors, plus SHARE of the peak, and a swap file in FOLDER. Swap is not encrypted.
#
# Needs root, swapon, and a memory cgroup (version 1 or 2). Where one is missing it is skipped, and
# says so. Takes away what it has made, however it ends.
set -euo pipefail

readonly folder=${1:-/var/tmp} share=${2:-50} steps=${3:-24}
shift $(($# < 3 ? $# : 3))
readonly arguments=("${@:---model=resnet20}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly bench=${VTENSOR_BENCH:-$here/../../../target/release/vtensor-bench}
readonly swap=$folder/.vtensor-swap-$$

skip() {
    echo "!!! SKIPPED: comparison with swap: $1"
    exit 0
}

[[ $EUID -eq 0 ]] || skip "it needs root"
command -v swapon >/dev/null && command -v mkswap >/dev/null || skip "swapon is not installed"
[[ -x $bench ]] || {
    echo "build it first: cargo build --release -p vtensor-bench" >&2
    exit 1
}

if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    readonly group=/sys/fs/cgroup/vtensor-swap-$$ limit=memory.max peak=memory.peak
    grep -qw memory /sys/fs/cgroup/cgroup.subtree_control ||
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null ||
        skip "the memory controller cannot be used"
elif [[ -d /sys/fs/cgroup/memory ]]; then
    readonly group=/sys/fs/cgroup/memory/vtensor-swap-$$
    readonly limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    skip "there is no memory cgroup"
fi

tidy_up() {
    [[ -e $swap ]] && { swapoff "$swap" 2>/dev/null || true; }
    rm -f "$swap"
    [[ -d $group ]] && { rmdir "$group" 2>/dev/null || true; }
}
trap tidy_up EXIT

# field NAME: a number of the last run in the JSON on standard input.
field() {
    grep -oE "\"$1\": ?[0-9.e+-]+" | tail -n 1 | grep -oE '[0-9.e+-]+$'
}

# in_group COMMAND...: runs it in the cgroup.
in_group() {
    (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
}

readonly training=(train "${arguments[@]}" --steps "$steps" --json)

mkdir "$group" || skip "a memory cgroup cannot be made"
echo "without a limit, to see what is needed ..." >&2
free=$(in_group "$bench" "${training[@]}" --policy none)
held=$(field peak_device_bytes <<<"$free")
used=$(cat "$group/$peak")
rmdir "$group" && mkdir "$group"

echo "with vTensor, in $share % ..." >&2
vtensor=$("$bench" "${training[@]}" --policy vtensor --budget "$share%" --spill "file:$folder")

echo "with swap, in as much ..." >&2
(umask 077 && fallocate -l $((2 * held + (256 << 20))) "$swap")
mkswap -q "$swap" 2>/dev/null || mkswap "$swap" >/dev/null
swapon -p 32767 "$swap" 2>/dev/null || skip "a swap file cannot be used in $folder"
echo $((used - held + held * share / 100)) >"$group/$limit"
# Where the kernel cannot swap as fast as training touches memory, it kills.
swapped=$(in_group "$bench" "${training[@]}" --policy none) || swapped=""

unlimited_s=$(field measured_step_s <<<"$free")
vtensor_s=$(field measured_step_s <<<"$vtensor")
swap_s=$(field measured_step_s <<<"$swapped" || true)
awk -v u="$unlimited_s" -v v="$vtensor_s" -v s="$swap_s" -v share="$share" -v held="$held" 'BEGIN {
    printf "%d MiB of tensors at the peak, %s %% of it to hold:\n", held / 1048576, share
    printf "  no limit  %8.1f ms a step\n", u * 1e3
    printf "  vtensor   %8.1f ms a step, %.2f of no limit\n", v * 1e3, v / u
    if (s == "") {
        print "  swap      the kernel killed the process: it could not swap fast enough"
        exit
    }
    printf "  swap      %8.1f ms a step, %.2f of no limit\n", s * 1e3, s / u
    printf "vtensor is %.1f times as fast as swap\n", s / v
}'
