# The library opens libcuda.so.1 when a program asks for a GPU: nothing of CUDA is needed to build.
PACKAGE_ARCH:tegra = "${TEGRA_PKGARCH}"
RDEPENDS:${PN}:append:tegra = " tegra-libraries-cuda"

# Off unless an image asks for it: with it, the boot service has a GPU's devices.
FILESEXTRAPATHS:prepend := "${THISDIR}/files:"
SRC_URI:append:tegra = " file://gpu.conf"
do_install:append:tegra() {
    if ${@bb.utils.contains('DISTRO_FEATURES', 'systemd', 'true', 'false', d)}; then
        install -d ${D}${systemd_system_unitdir}/vtensor-probe.service.d
        sed 's|/usr/bin/|${bindir}/|' ${VTENSOR_UNPACKDIR}/gpu.conf \
            > ${D}${systemd_system_unitdir}/vtensor-probe.service.d/gpu.conf
        chmod 0644 ${D}${systemd_system_unitdir}/vtensor-probe.service.d/gpu.conf
    fi
}
PACKAGES:prepend:tegra = "${PN}-probe-gpu "
SUMMARY:${PN}-probe-gpu = "Has the boot service of vTensor probe the GPU, too"
FILES:${PN}-probe-gpu = "${systemd_system_unitdir}/vtensor-probe.service.d/gpu.conf"
RDEPENDS:${PN}-probe-gpu = "${PN}-probe tegra-libraries-cuda"
