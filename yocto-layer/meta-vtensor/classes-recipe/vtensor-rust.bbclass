# Leaves a recipe out where the Rust of the series is too old, and says what to add. Without this,
# the failure would be an error of cargo about a lock file, hours into a build.

# As rust-version in Cargo.toml.
VTENSOR_RUST_MIN = "1.88"

python () {
    found = d.getVar('RUSTVERSION') or ''
    wanted = d.getVar('VTENSOR_RUST_MIN')
    if bb.utils.vercmp_string_op(found.rstrip('%') or '0', wanted, '<'):
        raise bb.parse.SkipRecipe(
            "it needs Rust %s or newer, and RUSTVERSION is '%s': on scarthgap add the branch "
            "scarthgap/rust of meta-lts-mixins, or update it" % (wanted, found))
}
