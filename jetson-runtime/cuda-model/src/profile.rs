//! The devices that the model can be.
//!
//! The values that decide how memory is managed (integrated, managed and pageable access, host
//! registration, copy engines, virtual memory) are those that vendors document or that field
//! reports agree on. Where no figure is public, the model takes the one that punishes assumptions:
//! pointers of registered memory differ between host and device on Tegra, and mapping granularity
//! there is not 2 MiB. Clock rates, processors and names only fill the answers.
//!
//! Limits: totals are nominal sizes; a test sets its own (`vtm_memory`).

/// Numbers of `CUdevice_attribute`, as in the public header.
pub(crate) mod attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub(crate) const WARP_SIZE: i32 = 10;
    pub(crate) const MULTIPROCESSOR_COUNT: i32 = 16;
    pub(crate) const INTEGRATED: i32 = 18;
    pub(crate) const CAN_MAP_HOST_MEMORY: i32 = 19;
    pub(crate) const COMPUTE_MODE: i32 = 20;
    pub(crate) const CONCURRENT_KERNELS: i32 = 31;
    pub(crate) const PCI_BUS_ID: i32 = 33;
    pub(crate) const PCI_DEVICE_ID: i32 = 34;
    pub(crate) const ASYNC_ENGINE_COUNT: i32 = 40;
    pub(crate) const UNIFIED_ADDRESSING: i32 = 41;
    pub(crate) const PCI_DOMAIN_ID: i32 = 50;
    pub(crate) const COMPUTE_MAJOR: i32 = 75;
    pub(crate) const COMPUTE_MINOR: i32 = 76;
    pub(crate) const STREAM_PRIORITIES: i32 = 78;
    pub(crate) const MANAGED_MEMORY: i32 = 83;
    pub(crate) const PAGEABLE_ACCESS: i32 = 88;
    pub(crate) const CONCURRENT_MANAGED: i32 = 89;
    pub(crate) const HOST_POINTER_REGISTERED: i32 = 91;
    pub(crate) const HOST_REGISTER: i32 = 99;
    pub(crate) const HOST_PAGE_TABLES: i32 = 100;
    pub(crate) const VIRTUAL_MEMORY: i32 = 102;
    pub(crate) const MEMORY_POOLS: i32 = 115;
}

const GIB: u64 = 1 << 30;

/// Functions that older drivers lack, and the version that brought them.
const SINCE: &[(&str, i32)] = &[
    ("cuDeviceGetUuid_v2", 11040),
    ("cuMemPrefetchAsync_v2", 12020),
    ("cuMemAdvise_v2", 12020),
    ("cuEventElapsedTime_v2", 12080),
    ("cuMemDiscardBatchAsync", 13000),
];

/// A device and its driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    /// What `vtm_reset` calls it.
    pub(crate) name: &'static str,
    /// What `cuDeviceGetName` answers.
    pub(crate) device: &'static str,
    /// As `cuDriverGetVersion` counts: 12060 is CUDA 12.6.
    pub(crate) driver: i32,
    /// The newest PTX that the driver takes: 85 is 8.5.
    pub(crate) ptx: u32,
    /// Compute capability: 87 is 8.7.
    pub(crate) capability: i32,
    pub(crate) memory_bytes: u64,
    pub(crate) multiprocessors: i32,
    pub(crate) copy_engines: i32,
    /// Host and device share one memory.
    pub(crate) integrated: bool,
    /// Host and device may use managed memory at the same time; without it prefetch is refused.
    pub(crate) concurrent_managed: bool,
    pub(crate) pageable_access: bool,
    pub(crate) host_page_tables: bool,
    pub(crate) host_register: bool,
    /// The device uses registered memory at the host's addresses.
    pub(crate) host_pointer_registered: bool,
    pub(crate) virtual_memory: bool,
    pub(crate) memory_pools: bool,
    /// What `cuMemGetAllocationGranularity` answers, in bytes.
    pub(crate) granularity: u64,
    /// Reservations of more addresses than this fail.
    pub(crate) reservation_bytes_max: u64,
}

/// All profiles.
static PROFILES: [Profile; 6] = [NANO, ORIN, THOR, GH200, RTX_LINUX, RTX_WSL];

/// Jetson Nano, JetPack 4: no host registration, no virtual memory, one copy engine.
const NANO: Profile = Profile {
    name: "nano",
    device: "NVIDIA Tegra X1",
    driver: 10020,
    ptx: 65,
    capability: 53,
    memory_bytes: 4 * GIB,
    multiprocessors: 1,
    copy_engines: 1,
    integrated: true,
    concurrent_managed: false,
    pageable_access: false,
    host_page_tables: false,
    host_register: false,
    host_pointer_registered: false,
    virtual_memory: false,
    memory_pools: false,
    granularity: 0,
    reservation_bytes_max: 0,
};

/// Jetson AGX Orin, JetPack 6.2. Reservations: llama.cpp issue 29142 (32 GiB fail, 8 GiB work).
const ORIN: Profile = Profile {
    name: "orin",
    device: "Orin",
    driver: 12060,
    ptx: 85,
    capability: 87,
    memory_bytes: 64 * GIB,
    multiprocessors: 16,
    copy_engines: 2,
    host_register: true,
    virtual_memory: true,
    memory_pools: true,
    granularity: 1 << 16,
    reservation_bytes_max: 8 * GIB,
    ..NANO
};

/// Jetson Thor, JetPack 7: coherent, prefetch works, one copy engine.
const THOR: Profile = Profile {
    name: "thor",
    device: "NVIDIA Thor",
    driver: 13000,
    ptx: 90,
    capability: 110,
    memory_bytes: 128 * GIB,
    multiprocessors: 20,
    copy_engines: 1,
    concurrent_managed: true,
    pageable_access: true,
    host_page_tables: true,
    host_pointer_registered: true,
    reservation_bytes_max: 1 << 40,
    ..ORIN
};

/// Grace Hopper: two memories over a coherent link.
const GH200: Profile = Profile {
    name: "gh200",
    device: "NVIDIA GH200 480GB",
    driver: 12080,
    ptx: 87,
    capability: 90,
    memory_bytes: 96 * GIB,
    multiprocessors: 132,
    pageable_access: true,
    host_page_tables: true,
    ..RTX_LINUX
};

/// A discrete card on Linux.
const RTX_LINUX: Profile = Profile {
    name: "rtx-linux",
    device: "NVIDIA GeForce RTX 4090",
    driver: 13000,
    ptx: 90,
    capability: 89,
    memory_bytes: 24 * GIB,
    multiprocessors: 128,
    copy_engines: 2,
    integrated: false,
    concurrent_managed: true,
    pageable_access: false,
    host_page_tables: false,
    host_register: true,
    host_pointer_registered: true,
    virtual_memory: true,
    memory_pools: true,
    granularity: 2 << 20,
    reservation_bytes_max: 1 << 44,
};

/// The same card under WSL: no concurrent managed access, so no prefetch.
const RTX_WSL: Profile = Profile {
    name: "rtx-wsl",
    concurrent_managed: false,
    ..RTX_LINUX
};

impl Profile {
    /// The profile of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Functions of the model that the driver of this device does not have.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &'static str> {
        let newer = SINCE.iter().filter(|(_, since)| *since > self.driver);
        newer.map(|(name, _)| *name)
    }

    /// A device attribute, if the model knows its number.
    pub(crate) fn attribute(&self, number: i32) -> Option<i32> {
        use attribute as a;
        Some(match number {
            a::MAX_THREADS_PER_BLOCK => 1024,
            a::WARP_SIZE => 32,
            a::MULTIPROCESSOR_COUNT => self.multiprocessors,
            a::COMPUTE_MODE | a::PCI_DEVICE_ID | a::PCI_DOMAIN_ID => 0,
            a::PCI_BUS_ID => i32::from(!self.integrated),
            a::CAN_MAP_HOST_MEMORY | a::CONCURRENT_KERNELS | a::UNIFIED_ADDRESSING => 1,
            a::STREAM_PRIORITIES | a::MANAGED_MEMORY => 1,
            a::INTEGRATED => i32::from(self.integrated),
            a::ASYNC_ENGINE_COUNT => self.copy_engines,
            a::COMPUTE_MAJOR => self.capability / 10,
            a::COMPUTE_MINOR => self.capability % 10,
            a::PAGEABLE_ACCESS => i32::from(self.pageable_access),
            a::CONCURRENT_MANAGED => i32::from(self.concurrent_managed),
            a::HOST_POINTER_REGISTERED => i32::from(self.host_pointer_registered),
            a::HOST_REGISTER => i32::from(self.host_register),
            a::HOST_PAGE_TABLES => i32::from(self.host_page_tables),
            a::VIRTUAL_MEMORY => i32::from(self.virtual_memory),
            a::MEMORY_POOLS => i32::from(self.memory_pools),
            _ => return None,
        })
    }
}
