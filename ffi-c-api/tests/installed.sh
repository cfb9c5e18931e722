#!/usr/bin/env bash
# The C side, from an installed tree, as a user has it: what the libraries export and need, the
# examples by pkg-config and by CMake, shared and static, and the tests under AddressSanitizer and
# Valgrind. Run by `make check`, which installs the tree first.
#
#   installed.sh FOLDER         all checks, in a folder to write to
#   installed.sh FOLDER bench   what an op costs
#
# VTENSOR_TREE and VTENSOR_SONAME are the Makefile's. VTENSOR_FUZZ_S: seconds of random calls (20).
# VTENSOR_DIGITS: the digits, as in the bench's data. A check whose tool is missing is skipped, by
# name; every other failure fails the run, and the checks after it still run.
set -uo pipefail

readonly here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly tree=${VTENSOR_TREE:?the installed tree} soname=${VTENSOR_SONAME:?the name of the library}
readonly work=${1:?a folder to write to} lib=$tree/lib
readonly cc=${CC:-cc} cxx=${CXX:-c++} strip=${STRIP:-strip} seconds=${VTENSOR_FUZZ_S:-20}
readonly digits=${VTENSOR_DIGITS:-$here/../jetson-runtime/bench/data/digits.csv.gz}
readonly size_max=2000000
export LD_LIBRARY_PATH=$lib PKG_CONFIG_PATH=$lib/pkgconfig
passed=0 failed=0 skipped=0

# check NAME COMMAND...: runs it; shows what it said only if it failed.
check() {
    local name=$1 log=$work/log begun=$SECONDS
    shift
    if (cd "$work" && "$@") >"$log" 2>&1; then
        printf '  ok      %3d s  %s\n' $((SECONDS - begun)) "$name"
        ((++passed))
    else
        printf '  FAILED  %3d s  %s: %s\n' $((SECONDS - begun)) "$name" "$*"
        tail -n 60 "$log" | sed 's/^/          /'
        ((++failed))
    fi
}

skip() {
    printf '  SKIPPED         %s: %s\n' "$1" "$2"
    ((++skipped))
}

have() {
    command -v "$1" >/dev/null
}

# ---- what the libraries are ----------------------------------------------------------------------

# Every symbol with its version, as the version script has them.
committed_symbols() {
    awk '/^VTENSOR_/ { node = $1 } /^ *vt_[a-z0-9_]*;$/ { gsub(/[ ;]/, ""); print $0 "@@" node }' \
        "$here/abi/symbols.map" | LC_ALL=C sort
}

exported_symbols() {
    nm -D --defined-only "$lib/$soname" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort
}

symbols() {
    diff <(committed_symbols) <(exported_symbols)
}

# The static library has the same names for others to see, and no others.
static_symbols() {
    diff <(committed_symbols | sed 's/@@.*//') \
        <(nm --defined-only --extern-only "$lib/libvtensor.a" | awk 'NF == 3 { print $3 }' |
            LC_ALL=C sort)
}

names_itself() {
    readelf -d "$lib/$soname" | grep -F "Library soname: [$soname]"
}

# Nothing that a machine without a GPU does not have.
needs_libc_only() {
    local needed
    needed=$(readelf -d "$lib/$soname" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    echo "$needed"
    ! grep -Ev '^(libc\.so|libgcc_s\.so|libm\.so|libdl\.so|libpthread\.so|ld-linux)' <<<"$needed"
}

is_small() {
    local bytes
    "$strip" --strip-unneeded -o ./stripped.so "$lib/$soname" || return
    bytes=$(stat -Lc %s ./stripped.so)
    echo "$bytes bytes, at most $size_max"
    ((bytes <= size_max))
}

# ---- building by hand and by pkg-config ----------------------------------------------------------

# compile OUTPUT SOURCE FLAGS...: by the language of the source, with the package's own flags.
compile() {
    local output=$1 source=$2 compiler=$cc standard=-std=c11
    shift 2
    [[ $source == *.cpp ]] && compiler=$cxx standard=-std=c++17
    # shellcheck disable=SC2046 # flags are words
    $compiler $standard -D_GNU_SOURCE -O2 -g -Wall -Wextra -pedantic -Werror \
        $(pkg-config --cflags vtensor) "$source" -o "$output" "$@" -lm -pthread
}

shared() {
    # shellcheck disable=SC2046
    compile "$1" "$2" $(pkg-config --libs vtensor) "${@:3}"
}

static() {
    # shellcheck disable=SC2046
    compile "$1" "$2" $(pkg-config --variable=static_library vtensor) \
        $(pkg-config --variable=system_libraries vtensor) "${@:3}"
}

# ---- the examples ---------------------------------------------------------------------------------

# examples FOLDER EPOCHS RUNNER...: runs all that were built there.
examples() {
    local folder=$1 epochs=$2
    shift 2
    "$@" "$folder/minimal" &&
        { [[ ! -e digits.csv ]] || "$@" "$folder/digits" digits.csv "$epochs"; } &&
        "$@" "$folder/pipeline" $((epochs * 5)) &&
        "$@" "$folder/offline" plan shipped.plan &&
        "$@" "$folder/offline" run shipped.plan
}

# by_pkg_config FOLDER LINK EPOCHS FLAGS...
by_pkg_config() {
    local folder=$1 link=$2 epochs=$3 source
    mkdir -p "$folder"
    for source in "$here"/examples/*.c "$here"/examples/*.cpp; do
        "$link" "$folder/$(basename "${source%.*}")" "$source" "${@:4}" || return
    done
    examples "$folder" "$epochs"
}

# by_cmake FOLDER STATIC
by_cmake() {
    rm -rf "$1"
    cmake -S "$here/examples" -B "$1" -DCMAKE_PREFIX_PATH="$tree" -DVTENSOR_STATIC="$2" &&
        cmake --build "$1" && examples "$1" 8
}

# The tree, somewhere else than where it was installed.
moved() {
    rm -rf ./moved ./moved-build && cp -a "$tree" ./moved || return
    local flags
    flags=$(PKG_CONFIG_PATH=$PWD/moved/lib/pkgconfig pkg-config --define-prefix --cflags vtensor)
    [[ $flags == *"$PWD/moved/include"* ]] || { echo "$flags" && return 1; }
    if have cmake; then
        cmake -S "$here/examples" -B ./moved-build -DCMAKE_PREFIX_PATH="$PWD/moved" &&
            cmake --build ./moved-build --target minimal &&
            env -u LD_LIBRARY_PATH ./moved-build/minimal &&
            grep -F "$PWD/moved/include" -r ./moved-build/CMakeFiles/minimal.dir/flags.make
    fi
}

# ---- the tests ------------------------------------------------------------------------------------

readonly tests=(smoke.c works.c again.c misuse.c disturb.c damage.c settings.c owners.cpp)

# suite LINK RUNNER FLAGS...: builds and runs the tests; the runner may be empty.
suite() {
    local link=$1 runner=$2 name
    shift 2
    for name in "${tests[@]}"; do
        "$link" "./${name%.*}" "$here/tests/c/$name" "$@" || return
        # shellcheck disable=SC2086 # a command with arguments, or none
        $runner "./${name%.*}" || return
    done
}

readonly sanitize=(-fsanitize=address,undefined -fno-sanitize-recover=all -O1)
readonly grind='env VTENSOR_TESTS_WITHOUT_FORK=1 valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite
    --errors-for-leak-kinds=definite --fair-sched=yes --suppressions='"$here/tests/valgrind.supp"

random_calls() {
    static ./fuzz "$here/tests/c/fuzz/fuzz.c" "$here"/tests/c/fuzz/[!f]*.c "${sanitize[@]}" &&
        ./fuzz "$seconds"
}

# Whether clang has what libFuzzer and the sanitizers link with.
guided_calls_link() {
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d != 0 && n < 0; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o "$work/none" 2>/dev/null
}

guided_calls() {
    clang -std=c11 -D_GNU_SOURCE -DLIBFUZZER -g -O1 -fsanitize=fuzzer,address,undefined \
        -I"$tree/include" "$here"/tests/c/fuzz/*.c "$lib/libvtensor.a" \
        -lgcc_s -lpthread -lm -ldl -o guided || return
    mkdir -p corpus
    ./guided -max_len=2048 -max_total_time="$seconds" -print_final_stats=1 corpus
}

latency() {
    shared ./latency "$here/tests/c/latency.c" && ./latency "$1"
}

# A program that knows nothing of the library when it is linked, on a machine without a driver.
loads_by_name() {
    cat >load.c <<'C'
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <vtensor.h>
int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    vt_status (*probe)(vt_probe_info *);
    vt_probe_info info;
    info.size = sizeof info;
    if (library == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    *(void **)&probe = dlvsym(library, "vt_probe", "VTENSOR_0.1");
    if (probe == NULL || probe(&info) != VT_OK)
        return 1;
    puts(info.reasons);
    return dlclose(library);
}
C
    shared ./load load.c -ldl && ./load "$soname"
}

# ---- all of it ------------------------------------------------------------------------------------

mkdir -p "$work"
if [[ ${2:-} == bench ]]; then
    (cd "$work" && latency 3000)
    exit
fi
rm -f "$work/digits.csv"
if [[ -e $digits ]]; then
    zcat "$digits" >"$work/digits.csv" || exit
else
    skip "the digits example" "$digits is missing; name it with VTENSOR_DIGITS"
fi

check "exported symbols and versions are the committed ones" symbols
check "the static library shows no other names" static_symbols
check "the library's own name is $soname" names_itself
check "it needs libc and friends only" needs_libc_only
check "stripped it is below $size_max bytes" is_small
if have pkg-config; then
    check "it loads by name, and probes" loads_by_name
    check "examples by pkg-config, shared" by_pkg_config ./examples-shared shared 8
    check "examples by pkg-config, static" by_pkg_config ./examples-static static 8
    check "the tree may be moved" moved
    check "tests, shared" suite shared ""
    check "frozen ops allocate nothing" latency 200
    check "tests under sanitizers" suite static "" "${sanitize[@]}"
    check "examples under sanitizers" by_pkg_config ./examples-asan static 2 "${sanitize[@]}"
    check "random calls for $seconds s, under sanitizers" random_calls
    if have valgrind; then
        check "tests under Valgrind" suite shared "$grind"
        # shellcheck disable=SC2086
        check "examples under Valgrind" examples ./examples-shared 1 $grind
    else
        skip "tests and examples under Valgrind" "valgrind is not installed"
    fi
else
    skip "examples and tests of the installed tree" "pkg-config is not installed"
fi
if have cmake; then
    check "examples by CMake, shared" by_cmake ./cmake-shared OFF
    check "examples by CMake, static" by_cmake ./cmake-static ON
else
    skip "examples by CMake" "cmake is not installed"
fi
if guided_calls_link; then
    check "guided calls for $seconds s (libFuzzer)" guided_calls
else
    skip "guided calls (libFuzzer)" "clang with its run-time library is not installed"
fi
if have mandoc; then
    check "manual pages" mandoc -T lint -W warning "$tree"/share/man/man*/*
else
    skip "manual pages" "mandoc is not installed"
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
