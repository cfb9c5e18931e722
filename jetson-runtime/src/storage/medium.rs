//! The medium: whether what is written to a folder is in memory after all.
//!
//! In memory are tmpfs and ramfs; overlays whose upper layer is, as on images whose root cannot be
//! written; and file systems on disks of memory (zram, brd), directly or by way of the device
//! mapper.
//!
//! *Not here*: what the kernel does not tell. An upper layer that this process cannot see, as in
//! some containers, and the disk of a virtual machine count as disks.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::libc::{major, minor};
use nix::sys::statfs::{FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, statfs};

/// Magic number of ramfs, which `nix` does not name.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
/// Overlays on overlays, or disks on disks, that are looked through.
const LAYERS_MAX: u32 = 8;

/// Whether a folder's files are in memory; `kind` is that of its file system.
pub(super) fn is_memory(kind: FsType, folder: &Path) -> bool {
    files_are_memory(kind, folder, LAYERS_MAX)
}

fn files_are_memory(kind: FsType, folder: &Path, layers: u32) -> bool {
    if kind == TMPFS_MAGIC || kind == RAMFS_MAGIC {
        return true;
    }
    let (Ok(metadata), Some(layers)) = (fs::metadata(folder), layers.checked_sub(1)) else {
        return false;
    };
    let device = metadata.dev();
    let device = format!("{}:{}", major(device), minor(device));
    if kind != OVERLAYFS_SUPER_MAGIC {
        return disk_is_memory(&Path::new("/sys/dev/block").join(device), LAYERS_MAX);
    }
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    upper_layer(&mounts, &device).is_some_and(|upper| {
        let kind = statfs(&upper).map(|upper| upper.filesystem_type());
        kind.is_ok_and(|kind| files_are_memory(kind, &upper, layers))
    })
}

/// The folder that an overlay writes to, of the mounts of a process; `device` is its number.
fn upper_layer(mounts: &[u8], device: &str) -> Option<PathBuf> {
    let mut mounts = mounts.split(|byte| *byte == b'\n');
    let mount = mounts.find(|mount| {
        let third = mount.split(|byte| *byte == b' ').nth(2);
        third == Some(device.as_bytes())
    })?;
    let options = mount.rsplit(|byte| *byte == b' ').next()?;
    let mut options = options.split(|byte| *byte == b',');
    let upper = options.find_map(|option| option.strip_prefix(b"upperdir="))?;
    Some(OsString::from_vec(unquoted(&unescaped(upper))).into())
}

/// A name as it is: the kernel tells what separates names by numbers, as in `\040`.
fn unescaped(mut name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    while let Some((&first, rest)) = name.split_first() {
        let digits = rest.get(..3).filter(|_| first == b'\\');
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(number.unwrap_or(first));
        name = &rest[if number.is_some() { 3 } else { 0 }..];
    }
    plain
}

/// A name as it is: whoever mounts an overlay puts `\` before commas, and the kernel tells it, too.
fn unquoted(name: &[u8]) -> Vec<u8> {
    let mut bytes = name.iter();
    let plain = std::iter::from_fn(|| match bytes.next()? {
        b'\\' => bytes.next().or(Some(&b'\\')),
        plain => Some(plain),
    });
    plain.copied().collect()
}

/// Whether a disk, or any that it lies on, is in memory, by its folder in `/sys`.
fn disk_is_memory(disk: &Path, layers: u32) -> bool {
    let (Ok(disk), Some(layers)) = (fs::canonicalize(disk), layers.checked_sub(1)) else {
        return false;
    };
    let below = fs::read_dir(disk.join("slaves")).into_iter().flatten();
    let mut below = below.filter_map(|entry| Some(entry.ok()?.path()));
    is_named_memory(&disk) || below.any(|disk| disk_is_memory(&disk, layers))
}

/// Whether a folder of `/sys` is that of a disk in memory, or of a part of one.
fn is_named_memory(disk: &Path) -> bool {
    disk.iter().any(|name| {
        let number = ["zram", "ram"].map(|kind| name.as_bytes().strip_prefix(kind.as_bytes()));
        let number = number.into_iter().flatten().next();
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upper_layer_is_found_by_the_number_of_its_overlay() {
        let mounts = [
            &b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"[..],
            b"40 27 0:40 / /a\\040b rw - overlay none rw,lowerdir=/l,upperdir=/x,workdir=/w",
            b"41 27 0:41 / /c rw - overlay over rw,upperdir=/u\\134\\054p\\040/\xc3\xa4,uuid=on",
            b"42 27 0:42 / /ro ro - overlay none ro,lowerdir=/l:/m",
        ];
        let mounts = mounts.join(&b'\n');
        let upper = |device| upper_layer(&mounts, device);
        assert_eq!(upper("0:40"), Some("/x".into()));
        assert_eq!(upper("0:41"), Some("/u,p /ä".into()));
        assert_eq!(["0:42", "254:0", "0:4"].map(upper), [None, None, None]);
        assert_eq!(upper_layer(b"", "0:40"), None);
    }

    #[test]
    fn names_are_as_they_were_before_the_kernel_told_them() {
        for (told, plain) in [
            (&b"a\\040b\\011"[..], &b"a b\t"[..]),
            (b"\\", b"\\"),
            (b"\\04", b"\\04"),
            (b"\\999", b"\\999"),
            (b"\\777", b"\\777"),
            (b"", b""),
        ] {
            assert_eq!(unescaped(told), plain);
        }
        assert_eq!(unquoted(b"a\\,b\\\\c\\"), b"a,b\\c\\");
    }

    #[test]
    fn disks_of_memory_have_names() {
        for (disk, memory) in [
            ("/sys/devices/virtual/block/zram0", true),
            ("/sys/devices/virtual/block/zram12/zram12p1", true),
            ("/sys/devices/virtual/block/ram3", true),
            ("/sys/devices/virtual/block/dm-0", false),
            ("/sys/devices/platform/ram/block/nvme0n1", false),
            ("/sys/devices/pci0000:00/program1/block/sda", false),
        ] {
            assert_eq!(is_named_memory(Path::new(disk)), memory, "{disk}");
        }
    }
}
