//! Archives: the points of the workload as text, in gzip files that are made beforehand and sent
//! as often as one likes. A manifest beside them says what they hold.

mod read;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};

pub use read::{Chunk, Reader};

pub const MANIFEST: &str = "manifest.json";

/// Of the manifest.
pub const VERSION: u32 = 1;

/// What is in a directory of archives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Who made it.
    pub software: String,
    /// The form of its messages: "rows" | "values".
    pub messages: String,
    /// Names of the metrics, as a row has them.
    pub metrics: Vec<String>,
    pub points: u64,
    pub series: u64,
    /// Of the text.
    pub bytes: u64,
    pub compressed_bytes: u64,
    /// The sum of the points' digests, 16 hexadecimal digits.
    pub checksum: String,
    pub first_unix_ns: i64,
    pub last_unix_ns: i64,
    pub archives: Vec<Archive>,
    /// What the points were made by: `data` of a trial spec.
    pub data: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    pub file: String,
    /// The first and the last of its hosts.
    pub hosts: (u64, u64),
    pub points: u64,
    pub series: u64,
    pub bytes: u64,
    pub compressed_bytes: u64,
    pub checksum: String,
    /// Of the text, 8 hexadecimal digits.
    pub crc32: String,
}

impl Archive {
    pub fn digest(&self) -> u64 {
        u64::from_str_radix(&self.checksum, 16).unwrap_or(0)
    }
}

impl Manifest {
    /// Reads the manifest of a directory, and looks whether its archives are there, each with
    /// its length; what is in them is checked when they are read.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(MANIFEST);
        let text = fs::read_to_string(&path).map_err(|error| {
            Error::usage(format!(
                "{}: {error}; archives are made by `venturi generate`, which ends with their manifest",
                path.display()
            ))
        })?;
        let wrong = |what: String| Error::usage(format!("{}: {what}", path.display()));
        let manifest: Self = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("not a manifest of archives: {error}")))?;
        if manifest.format != VERSION {
            return Err(wrong(format!(
                "format {}, this Venturi knows {VERSION}: make the archives again",
                manifest.format
            )));
        }
        if manifest.metrics.is_empty() || !matches!(&*manifest.messages, "rows" | "values") {
            return Err(wrong("messages that are neither rows nor values".into()));
        }
        for archive in &manifest.archives {
            let path = manifest.path(directory, archive)?;
            let file = fs::metadata(&path)
                .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
            if file.len() != archive.compressed_bytes {
                return Err(Error::usage(format!(
                    "{}: {} bytes, {} in the manifest: make the archives again",
                    path.display(),
                    file.len(),
                    archive.compressed_bytes
                )));
            }
        }
        Ok(manifest)
    }

    /// An archive's path; it is in the directory itself.
    pub fn path(&self, directory: &Path, archive: &Archive) -> Result<PathBuf> {
        let file = Path::new(&archive.file);
        if file.file_name() != Some(file.as_os_str()) {
            return Err(Error::usage(format!(
                "{}: {:?} is no file's name",
                directory.join(MANIFEST).display(),
                archive.file
            )));
        }
        Ok(directory.join(file))
    }

    /// Lines of a message, and points.
    pub fn message(&self) -> (u64, u64) {
        match &*self.messages {
            "values" => (3, 1),
            _ => (3 + self.metrics.len() as u64, self.metrics.len() as u64),
        }
    }
}

pub fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Kind::Io, format!("{}: {error}", path.display()))
}
