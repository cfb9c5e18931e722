# The library opens libcuda.so.1 when a program asks for a GPU: nothing of CUDA is needed to build.
PACKAGE_ARCH:tegra = "${TEGRA_PKGARCH}"
RDEPENDS:${PN}:append:tegra = " tegra-libraries-cuda"
