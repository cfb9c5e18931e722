SUMMARY = "Runtime for training inside too little GPU memory"
DESCRIPTION = "Training steps are recorded, planned, proven and frozen; pieces of tensors move \
out of the way and back, just in time. The C library, its benchmark, and a service that looks at \
the device at boot."
SECTION = "libs"

# Its own, and what the crates ask for that are linked into it.
LICENSE = "(MIT | Apache-2.0) & MIT & Apache-2.0 & ISC & Zlib"
LIC_FILES_CHKSUM = "\
    file://LICENSE-MIT;md5=9ce26ae7220918749375e7a102b15700 \
    file://LICENSE-APACHE;md5=3b83ef96387f14655fc854ddc3c6bd57 \
"

# The sources are those that this layer came with: one checkout, one pin. To take them from
# elsewhere, set both in a bbappend: VTENSOR_SRC_URI to what fetches them, unpacked to VTENSOR_DIR.
VTENSOR_CHECKOUT ?= "${THISDIR}/../../../.."
VTENSOR_DIR = "vtensor-${PV}"
VTENSOR_SRC_URI ?= "\
    file://Cargo.toml;subdir=${VTENSOR_DIR} \
    file://Cargo.lock;subdir=${VTENSOR_DIR} \
    file://LICENSE-APACHE;subdir=${VTENSOR_DIR} \
    file://LICENSE-MIT;subdir=${VTENSOR_DIR} \
    file://ffi-c-api;subdir=${VTENSOR_DIR} \
    file://jetson-runtime;subdir=${VTENSOR_DIR} \
    file://lgm;subdir=${VTENSOR_DIR} \
    file://traces;subdir=${VTENSOR_DIR} \
    file://vtensor;subdir=${VTENSOR_DIR} \
"
FILESEXTRAPATHS:prepend := "${VTENSOR_CHECKOUT}:"
SRC_URI = "\
    ${VTENSOR_SRC_URI} \
    file://vtensor-probe.service \
    file://vtensor.tmpfiles \
    file://vtensor.toml \
"

require vtensor-crates.inc

# Sources are unpacked to UNPACKDIR where the series has one, and to WORKDIR before.
VTENSOR_UNPACKDIR = "${@d.getVar('UNPACKDIR') or d.getVar('WORKDIR')}"
S = "${VTENSOR_UNPACKDIR}/${VTENSOR_DIR}"

inherit cargo systemd useradd vtensor-rust

COMPATIBLE_HOST = "(aarch64|x86_64).*-linux"

# Crates lie beside the sources. Without this, what they have in C and assembly would tell debuggers
# where it was built, which is an error of packaging.
DEBUG_PREFIX_MAP:append = " -ffile-prefix-map=${CARGO_HOME}=${TARGET_DBGSRC_DIR}"

# One install step for every system: that of ffi-c-api/Makefile.
EXTRA_OEMAKE = "\
    -C ${S}/ffi-c-api \
    CARGO_TARGET_DIR='${B}/target' CARGO_BUILD_TARGET='${RUST_HOST_SYS}' CARGOFLAGS='--frozen' \
    PREFIX='${prefix}' LIBDIR='${libdir}' INCLUDEDIR='${includedir}' MANDIR='${mandir}' \
    DOCDIR='${docdir}/${BPN}' \
    CC='${CC}' LD='${LD}' AR='${AR}' OBJCOPY='${OBJCOPY}' CFLAGS='${CFLAGS}' LDFLAGS='${LDFLAGS}' \
"

do_compile() {
    # The benchmark is the workspace's default member.
    cargo_do_compile
    oe_runmake all
}

do_install() {
    # Everything is built: cargo is not asked again.
    oe_runmake install DESTDIR='${D}' CARGO=true
    install -D -m 0755 ${B}/target/${CARGO_TARGET_SUBDIR}/vtensor-bench ${D}${bindir}/vtensor-bench
    install -D -m 0644 ${VTENSOR_UNPACKDIR}/vtensor.toml ${D}${sysconfdir}/vtensor.toml

    if ${@bb.utils.contains('DISTRO_FEATURES', 'systemd', 'true', 'false', d)}; then
        install -d ${D}${systemd_system_unitdir}
        sed 's|/usr/bin/|${bindir}/|' ${VTENSOR_UNPACKDIR}/vtensor-probe.service \
            > ${D}${systemd_system_unitdir}/vtensor-probe.service
        chmod 0644 ${D}${systemd_system_unitdir}/vtensor-probe.service
        install -D -m 0644 ${VTENSOR_UNPACKDIR}/vtensor.tmpfiles \
            ${D}${nonarch_libdir}/tmpfiles.d/vtensor.conf
    fi
}

PACKAGES =+ "${PN}-bench ${PN}-probe"
CONFFILES:${PN} = "${sysconfdir}/vtensor.toml"

SUMMARY:${PN}-bench = "Plans, proves, replays and trains inside a memory budget"
FILES:${PN}-bench = "${bindir}/vtensor-bench"

# The boot service, where there is systemd.
SUMMARY:${PN}-probe = "Looks at the device at boot, for every program that uses vTensor"
FILES:${PN}-probe = "\
    ${systemd_system_unitdir}/vtensor-probe.service \
    ${nonarch_libdir}/tmpfiles.d/vtensor.conf \
"
RDEPENDS:${PN}-probe = "${PN}-bench"
SYSTEMD_PACKAGES = "${PN}-probe"
SYSTEMD_SERVICE:${PN}-probe = "vtensor-probe.service"
USERADD_PACKAGES = "${PN}-probe"
GROUPADD_PARAM:${PN}-probe = "--system vtensor"
USERADD_PARAM:${PN}-probe = "\
    --system --no-create-home --home-dir ${localstatedir}/lib/vtensor --shell /sbin/nologin \
    --gid vtensor vtensor \
"
