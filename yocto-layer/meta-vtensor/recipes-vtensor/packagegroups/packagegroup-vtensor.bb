SUMMARY = "Everything of vTensor that a device needs"

# What it brings differs between machines with and without a Tegra.
PACKAGE_ARCH = "${MACHINE_ARCH}"
inherit packagegroup vtensor-rust

RDEPENDS:${PN} = "\
    vtensor \
    vtensor-bench \
    ${@bb.utils.contains('DISTRO_FEATURES', 'systemd', 'vtensor-probe', '', d)} \
"
