//! Modules and launches.
//!
//! A module is PTX text. Its version and its target are compared with what driver and device take,
//! its kernels must be known by name and take as many parameters as the model thinks.

use super::transfer::modes;
use super::{Driver, new_handle};
use crate::check::Mode;
use crate::engine::command::Command;
use crate::kernel::Kernel;
use crate::space::Access;
use crate::status::Status;

/// A loaded module.
#[derive(Debug)]
pub(super) struct Module {
    kernels: Vec<Kernel>,
    /// Handles of functions that were asked for.
    functions: Vec<u64>,
}

/// A function of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    kernel: Kernel,
}

/// How a launch is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
}

impl Driver {
    /// `cuModuleLoadData`, of PTX text.
    pub(crate) fn load_module(&mut self, text: &str) -> Result<u64, Status> {
        let version = directive(text, ".version").and_then(tenths);
        let target = directive(text, ".target")
            .and_then(|target| target.strip_prefix("sm_"))
            .and_then(|number| {
                number
                    .trim_end_matches(char::is_alphabetic)
                    .parse::<i32>()
                    .ok()
            });
        let (Some(version), Some(target)) = (version, target) else {
            return Err(Status::INVALID_IMAGE);
        };
        if version > self.profile.ptx {
            return Err(Status::PTX_VERSION);
        }
        if target > self.profile.capability {
            return Err(Status::NO_BINARY);
        }
        let mut kernels = Vec::new();
        for (name, parameters) in entries(text) {
            let Some(kernel) = Kernel::named(name) else {
                continue;
            };
            if parameters != kernel.parameters() {
                let wanted = kernel.parameters();
                let text = format!("{name} has {parameters} parameters, the model takes {wanted}");
                return Err(self.misuse("kernel-parameters", Status::INVALID_PTX, text));
            }
            kernels.push(kernel);
        }
        let handle = new_handle();
        let module = Module {
            kernels,
            functions: Vec::new(),
        };
        self.modules.insert(handle, module);
        Ok(handle)
    }

    /// `cuModuleUnload`.
    pub(crate) fn unload_module(&mut self, handle: u64) -> Result<(), Status> {
        let Some(module) = self.modules.remove(&handle) else {
            return Err(self.bad_handle("module", handle));
        };
        for function in module.functions {
            self.functions.remove(&function);
        }
        Ok(())
    }

    /// `cuModuleGetFunction`.
    pub(crate) fn function(&mut self, handle: u64, name: &str) -> Result<u64, Status> {
        let Some(module) = self.modules.get_mut(&handle) else {
            return Err(self.bad_handle("module", handle));
        };
        let kernel = module.kernels.iter().find(|kernel| kernel.name() == name);
        let kernel = *kernel.ok_or(Status::NOT_FOUND)?;
        let function = new_handle();
        module.functions.push(function);
        self.functions.insert(function, Function { kernel });
        Ok(function)
    }

    /// How many parameters a function takes.
    pub(crate) fn parameters(&mut self, function: u64) -> Result<usize, Status> {
        match self.functions.get(&function) {
            Some(function) => Ok(function.kernel.parameters()),
            None => Err(self.bad_handle("function", function)),
        }
    }

    /// `cuLaunchKernel`. A kernel that leaves its memory loses the context, as on a device.
    pub(crate) fn launch(
        &mut self,
        function: u64,
        shape: Shape,
        stream: u64,
        parameters: &[u64],
    ) -> Result<(), Status> {
        let Some(Function { kernel }) = self.functions.get(&function).copied() else {
            return Err(self.bad_handle("function", function));
        };
        let threads = shape.block.iter().map(|n| u64::from(*n)).product::<u64>();
        if shape.grid.contains(&0) || threads == 0 || threads > 1024 {
            return Err(Status::INVALID_VALUE);
        }
        let (mut touches, mut places) = (Vec::new(), Vec::new());
        for touch in kernel.touches(parameters) {
            let access = match touch.mode {
                Mode::Read => Access::Read,
                _ => Access::ReadWrite,
            };
            let name = kernel.name();
            let found = self.on_device(name, touch.address, touch.bytes, access);
            let aligned = touch.mode != Mode::Atomic || touch.address.is_multiple_of(8);
            let Some(resolved) = found.ok().filter(|_| aligned) else {
                self.late = Some(Status::ILLEGAL_ADDRESS);
                break;
            };
            touches.extend(modes(&resolved.parts, touch.mode));
            places.push(resolved.places);
        }
        if self.late.is_some() {
            let nothing = Command::Set {
                to: Vec::new(),
                value: 0,
            };
            return self.submit(stream, kernel.name(), &[], nothing);
        }
        self.compute_touches(&touches);
        let launch = kernel.launch(parameters, places);
        self.submit(stream, kernel.name(), &touches, Command::Kernel(launch))
    }
}

/// The word after a directive of PTX.
fn directive<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.lines().map(|line| line.split_whitespace());
    let mut line = words.find(|words| words.clone().next() == Some(name))?;
    line.nth(1).map(|word| word.trim_end_matches(','))
}

/// A version in tenths.
fn tenths(version: &str) -> Option<u32> {
    let (major, minor) = version.split_once('.')?;
    Some(major.parse::<u32>().ok()? * 10 + minor.parse::<u32>().ok()?)
}

/// The kernels of PTX text, and how many parameters each has.
fn entries(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.split(".entry").skip(1).filter_map(|entry| {
        let (name, rest) = entry.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        Some((name.trim(), parameters.matches(".param").count()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_read_as_far_as_needed() {
        let text = "// x\n.version 6.4\n.target sm_53, debug\n.visible .entry vt_fill(\n \
                    .param .u64 a,\n .param .u64 b\n)\n{\n}\n.entry other()\n{}";
        assert_eq!(directive(text, ".version").and_then(tenths), Some(64));
        assert_eq!(directive(text, ".target"), Some("sm_53"));
        let found: Vec<_> = entries(text).collect();
        assert_eq!(found, [("vt_fill", 2), ("other", 0)]);
        assert_eq!(directive("nothing", ".version"), None);
    }
}
