//! Each profile answers as its device does.

use cuda_model::Control;

use crate::api::{Api, Location};

/// What decides how memory is managed, by device.
struct Device {
    profile: &'static str,
    integrated: i32,
    concurrent_managed: i32,
    host_page_tables: i32,
    host_register: i32,
    virtual_memory: i32,
    copy_engines: i32,
    version: i32,
}

const DEVICES: [Device; 6] = [
    device("nano", [1, 0, 0, 0, 0, 1], 10020),
    device("orin", [1, 0, 0, 1, 1, 2], 12060),
    device("thor", [1, 1, 1, 1, 1, 1], 13000),
    device("gh200", [0, 1, 1, 1, 1, 2], 12080),
    device("rtx-linux", [0, 1, 0, 1, 1, 2], 13000),
    device("rtx-wsl", [0, 0, 0, 1, 1, 2], 13000),
];

const fn device(profile: &'static str, values: [i32; 6], version: i32) -> Device {
    Device {
        profile,
        integrated: values[0],
        concurrent_managed: values[1],
        host_page_tables: values[2],
        host_register: values[3],
        virtual_memory: values[4],
        copy_engines: values[5],
        version,
    }
}

#[test]
fn attributes_are_those_of_the_device() {
    for device in DEVICES {
        let api = Api::new(device.profile);
        let wanted = [
            (18, device.integrated),
            (89, device.concurrent_managed),
            (100, device.host_page_tables),
            (99, device.host_register),
            (102, device.virtual_memory),
            (40, device.copy_engines),
            (83, 1),
        ];
        for (number, value) in wanted {
            let found = api.attribute(number);
            assert_eq!(found, Ok(value), "{}: attribute {number}", device.profile);
        }
        assert_eq!(api.attribute(9999), Err(1));
        assert_eq!(api.version(), Ok(device.version), "{}", device.profile);
        assert!(!api.name().unwrap().is_empty());
        let (free, total) = api.memory_info().unwrap();
        assert!(free == total && total >= 4 << 30);
        api.end_clean();
    }
}

#[test]
fn what_a_device_cannot_do_is_refused() {
    for device in DEVICES {
        let api = Api::new(device.profile);
        let managed = api.alloc_managed(4096).unwrap();
        let prefetched = api.prefetch_to(managed, 4096, 0);
        let wanted = if device.concurrent_managed == 1 {
            Ok(())
        } else {
            Err(101)
        };
        assert_eq!(prefetched, wanted, "{}", device.profile);
        if api.has("cuMemPrefetchAsync_v2") {
            let prefetched = api.prefetch(managed, 4096, Location(2, 0), 0);
            assert_eq!(prefetched, wanted, "{}", device.profile);
        }
        let mut bytes = [0; 100];
        let registered = api.register(bytes.as_mut_ptr(), 100);
        let wanted = if device.host_register == 1 {
            Ok(())
        } else {
            Err(801)
        };
        assert_eq!(registered, wanted, "{}", device.profile);
        if registered.is_ok() {
            api.unregister(bytes.as_mut_ptr()).unwrap();
        }
        let granularity = api.granularity();
        assert_eq!(
            granularity.is_ok(),
            device.virtual_memory == 1,
            "{}",
            device.profile
        );
        api.synchronize().unwrap();
        api.free(managed).unwrap();
        api.end_clean();
    }
}

#[test]
fn an_old_driver_lacks_what_came_later() {
    let later = [
        ("cuDeviceGetUuid_v2", 11040),
        ("cuMemPrefetchAsync_v2", 12020),
        ("cuMemAdvise_v2", 12020),
        ("cuEventElapsedTime_v2", 12080),
        ("cuMemDiscardBatchAsync", 13000),
        ("cuMemPrefetchAsync", 0),
        ("cuMemAdvise", 0),
        ("cuEventElapsedTime", 0),
    ];
    for device in DEVICES {
        let api = Api::bare(device.profile);
        for (name, since) in later {
            let there = device.version >= since;
            assert_eq!(api.has(name), there, "{}: {name}", device.profile);
        }
    }
    let without = ["cuMemMap", "cuLaunchKernel"];
    let api = Api::of(Control::without("thor", &without).unwrap());
    assert!(without.iter().all(|name| !api.has(name)));
    assert!(api.has("cuMemUnmap") && api.has("vtm_reset"));
    assert!(Control::without("thor", &["cuNothing"]).is_err());
    assert!(Control::new("toaster").is_err());
}

#[test]
fn modules_are_for_devices_and_drivers() {
    let ptx = |version: &str, target: &str| format!(".version {version}\n.target {target}\n");
    let orin = Api::new("orin");
    assert!(orin.load(&ptx("8.5", "sm_87")).is_ok());
    assert_eq!(orin.load(&ptx("8.6", "sm_87")), Err(222));
    assert_eq!(orin.load(&ptx("8.5", "sm_90a")), Err(209));
    assert_eq!(orin.load("nonsense"), Err(200));
    let nano = Api::new("nano");
    let (module, _) = nano.kernels();
    assert_eq!(nano.function(module, "vt_other"), Err(500));
    let wrong = ptx("6.0", "sm_50") + ".visible .entry vt_spin()\n{}";
    assert_eq!(nano.load(&wrong), Err(218));
    assert_eq!(nano.rules(), ["kernel-parameters"]);
}

#[test]
fn pinned_memory_takes_of_the_one_memory() {
    for (profile, taken) in [("orin", 4096), ("rtx-linux", 0)] {
        let api = Api::new(profile);
        let pointer = api.alloc_host(4096).unwrap();
        let (free, total) = api.memory_info().unwrap();
        assert_eq!(total - free, taken, "{profile}");
        api.free_host(pointer).unwrap();
        api.end_clean();
    }
}
