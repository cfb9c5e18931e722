//! The machines of the suite: the model of each profile, and a real GPU where the feature is on.

use cuda_model::Control;
use jetson_runtime::cuda::{Class, Device, Driver, Mechanism};

/// The profiles of the model.
pub(crate) const PROFILES: [&str; 6] = ["nano", "orin", "thor", "gh200", "rtx-linux", "rtx-wsl"];
/// Pages of the model, small so that programs are.
pub(crate) const MODEL_PAGE: u64 = 4096;

/// A machine with a GPU.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) device: Device,
    /// Pages that can be mapped.
    pub(crate) page: u64,
    /// `None` for a real one.
    pub(crate) control: Option<Control>,
}

impl Machine {
    /// The model of a profile, with small pages and copies that complete in any order.
    pub(crate) fn model(profile: &str) -> Self {
        Self::again(
            Control::new(profile).expect("the model is built with the tests"),
            profile,
        )
    }

    /// The same on a loaded model that nobody uses any more.
    pub(crate) fn again(control: Control, profile: &str) -> Self {
        control.reset(profile).unwrap();
        control.granularity(MODEL_PAGE).unwrap();
        // An event is used again only after the host has seen it complete.
        control.strict_events(true).unwrap();
        let driver = Driver::open(control.path()).unwrap();
        Self {
            name: profile.to_owned(),
            device: Device::open(&driver, 0).unwrap(),
            page: MODEL_PAGE,
            control: Some(control),
        }
    }

    /// Every machine. A real GPU that is wanted and is not there is skipped loudly.
    pub(crate) fn all() -> Vec<Self> {
        let mut machines: Vec<Self> = PROFILES.map(Self::model).into();
        if cfg!(feature = "gpu-tests") {
            match Driver::system().and_then(|driver| Device::open(&driver, 0)) {
                Ok(device) => machines.push(Self {
                    name: device.facts().name.clone(),
                    device,
                    page: 2 << 20,
                    control: None,
                }),
                Err(error) => eprintln!("SKIPPED: the suite on a real GPU: {error}"),
            }
        }
        machines
    }

    /// The mechanisms that work here.
    pub(crate) fn mechanisms(&self) -> Vec<Mechanism> {
        let facts = self.device.facts();
        let works = |mechanism: &Mechanism| match mechanism {
            Mechanism::Mapped => facts.virtual_memory,
            Mechanism::Managed => facts.managed && Class::of(facts).prefetches(),
            _ => true,
        };
        Mechanism::ALL.into_iter().filter(works).collect()
    }

    /// Lets go of the device of a model.
    pub(crate) fn loose(self) -> Control {
        drop(self.device);
        self.control.expect("it is a model")
    }

    /// Ends the machine: nothing was reported, and everything was given back.
    pub(crate) fn end(self) {
        let Self {
            name,
            device,
            control,
            ..
        } = self;
        drop(device);
        let Some(control) = control else {
            return;
        };
        assert_eq!(control.reports(), Vec::<String>::new(), "{name}");
        assert_eq!(control.leaks(), Vec::<String>::new(), "{name}");
    }
}
