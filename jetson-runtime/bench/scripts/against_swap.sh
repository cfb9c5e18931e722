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
# nothing of vTensor moves, and there is a swap file in FOLDER, which is not encrypted; a memory cgroup
# allows the process as much as it takes with vTensor, whose buffers and planning are part of that.
#
# A kernel that cannot free memory as fast as training touches it kills the process, at a hard limit.
# In version 2 the limit is therefore memory.high, which only slows down (this has not been tried). In
# version 1 killing is switched off, and a process that waits is given a MiB for a moment, which sets
# the kernel going again; how often is told. Swap is preferred to dropping the program's own pages.
#
# Needs root, swapon, and a memory cgroup (version 1 or 2). Where one is missing it is skipped, and
# says so. Takes away what it has made, however it ends.
set -euo pipefail

readonly folder=${1:-/var/tmp} share=${2:-50} steps=${3:-24}
shift $(($# < 3 ? $# : 3))
readonly arguments=("${@:---model=resnet20}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly bench=${VTENSOR_BENCH:-${CARGO_TARGET_DIR:-$here/../../../target}/release/vtensor-bench}
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
    readonly group=/sys/fs/cgroup/vtensor-swap-$$ limit=memory.high peak=memory.peak
    grep -qw memory /sys/fs/cgroup/cgroup.subtree_control ||
        echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null ||
        skip "the memory controller cannot be used"
elif [[ -d /sys/fs/cgroup/memory ]]; then
    readonly group=/sys/fs/cgroup/memory/vtensor-swap-$$
    readonly limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    skip "there is no memory cgroup"
fi

# The kernel keeps a group for a moment after its last process.
group_gone() {
    local turn
    for turn in {1..50}; do
        rmdir "$group" 2>/dev/null && return
        sleep 0.1
    done
    fail "taking the cgroup away" "$group is still used"
}

group_made() {
    mkdir "$group" || skip "a memory cgroup cannot be made"
}

# keep_going: lets a process that the kernel has stopped for want of memory go on; says how often.
keep_going() {
    local times=0
    while [[ -d $group ]]; do
        if grep -qs 'under_oom 1' "$group/memory.oom_control"; then
            times=$((times + 1))
            echo $((allowed + (1 << 20))) >"$group/$limit"
            # It may not come down at once.
            until echo "$allowed" >"$group/$limit" || [[ ! -d $group ]]; do sleep 0.005; done
        fi
        sleep 0.005
    done 2>/dev/null
    echo "$times"
}

# What runs in the group is ended first: it holds the group, and swap that is not read back for it.
tidy_up() {
    local process
    if [[ -d $group ]]; then
        for process in $(cat "$group/cgroup.procs"); do
            kill -KILL "$process" 2>/dev/null || true
        done
    fi
    if [[ -e $swap ]]; then
        swapoff "$swap" 2>/dev/null || true
        rm -f "$swap"
    fi
    if [[ -d $group ]]; then
        group_gone
    fi
}
trap tidy_up EXIT

# fail WHAT ANSWER: says why a run failed, and ends.
fail() {
    echo "$1 failed: ${2:-killed by the kernel, for want of memory}" >&2
    exit 1
}

# field NAME: a number of the last run in the JSON on standard input.
field() {
    grep -oE "\"$1\": ?[0-9.e+-]+" | tail -n 1 | grep -oE '[0-9.e+-]+$'
}

# in_group COMMAND...: runs it in the cgroup.
in_group() {
    (echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
}

readonly training=(train "${arguments[@]}" --steps "$steps" --json)

group_made
echo "without a limit ..." >&2
free=$(in_group "$bench" "${training[@]}" --policy none) || fail "training" "$free"
held=$(field peak_device_bytes <<<"$free")
used=$(cat "$group/$peak")

echo "with vTensor, in $share % ..." >&2
limits=(--policy vtensor --budget "$share%" --spill "file:$folder")
vtensor=$(in_group "$bench" "${training[@]}" "${limits[@]}") ||
    fail "vTensor" "$vtensor"
# What the process takes beside what it had before training began.
taken() {
    field peak_pss_bytes <<<"$1"
}
allowed=$((used - $(taken "$free") + $(taken "$vtensor")))
[[ $allowed -lt $used ]] || skip "with vTensor it takes as much as without a limit: train more"

echo "with swap, in as much ..." >&2
(umask 077 && fallocate -l $((2 * held + (256 << 20))) "$swap")
mkswap -q "$swap" 2>/dev/null || mkswap "$swap" >/dev/null
swapon -p 32767 "$swap" 2>/dev/null || skip "a swap file cannot be used in $folder"
group_gone && group_made
echo "$allowed" >"$group/$limit"
if [[ -e $group/memory.oom_control ]]; then
    echo 200 >"$group/memory.swappiness"
    echo 1 >"$group/memory.oom_control"
fi
exec {going}< <(keep_going)
swapped=$(in_group "$bench" "${training[@]}" --policy none) || swapped=""
group_gone
read -r lifted <&"$going"

unlimited_s=$(field measured_step_s <<<"$free")
vtensor_s=$(field measured_step_s <<<"$vtensor")
swap_s=$(field measured_step_s <<<"$swapped" || true)
awk -v u="$unlimited_s" -v v="$vtensor_s" -v s="$swap_s" -v share="$share" -v held="$held" \
    -v used="$used" -v allowed="$allowed" -v lifted="$lifted" 'BEGIN {
    printf "%d MiB of tensors at the peak, %s %% of it to hold; the process takes %d MiB, then %d:\n",
        held / 1048576, share, used / 1048576, allowed / 1048576
    printf "  no limit  %8.1f ms a step\n", u * 1e3
    printf "  vtensor   %8.1f ms a step, %.2f of no limit\n", v * 1e3, v / u
    if (s == "") {
        print "!!! SKIPPED: swap: the kernel killed the process, for want of memory"
        exit
    }
    printf "  swap      %8.1f ms a step, %.2f of no limit; stuck for memory %d times\n",
        s * 1e3, s / u, lifted
    printf "vtensor is %.1f times as fast as swap\n", s / v
}'
