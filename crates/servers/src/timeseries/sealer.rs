//! Heads become segments. A thread a reader, so that sealing keeps up with reading and
//! both are bounded by the same cores.

use std::fs;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::config::Durable;
use super::head::Frozen;
use super::segment::{self, named, sync_directory};
use super::store::{path, Store};

/// The sealing thread's body: until the reader hangs up. A permit comes back with every
/// head that is done; where nothing can be written any more, all waiting are let go.
pub fn run(store: &Arc<Store>, heads: &Receiver<Arc<Frozen>>, permits: &Semaphore) {
    while let Ok(frozen) = heads.recv() {
        match seal(store, &frozen, store.spec.durable == Durable::Fsync) {
            Ok(()) => permits.add_permits(1),
            Err(error) => {
                store.fail(format!("cannot write segment {}: {error}", frozen.id));
                permits.close();
            }
        }
    }
}

/// Announces a head that is on its way: its points are counted there from now on. The
/// caller still holds the head's lock.
pub fn announce(store: &Store, frozen: Frozen) -> Arc<Frozen> {
    let frozen = Arc::new(frozen);
    store.catalog.lock().sealing.push(frozen.clone());
    frozen
}

/// Writes both files of a segment, which exists once the points' one has its name, and removes
/// its log. `sync`: only once they are on the disk.
pub fn seal(store: &Store, frozen: &Arc<Frozen>, sync: bool) -> Result<(), String> {
    let data = &store.spec.data;
    let temporary = |folder: &str| path(data, folder, frozen.id, "parquet.tmp");
    let [series, points] = ["series", "points"].map(temporary);
    let written = || -> Result<_, parquet::errors::ParquetError> {
        let (lines, of_points) = segment::write_points(&points, frozen, &store.registry, sync)?;
        let of_series = segment::write_series(&series, &lines, sync)?;
        Ok((lines, of_points, of_series))
    };
    let name = |of_points: u64, of_series: u64| -> io::Result<u64> {
        let bytes = fs::metadata(&series)?.len() + fs::metadata(&points)?.len();
        fs::rename(&series, named(data, "series", frozen.id, of_series))?;
        if sync {
            // The points' name is the commit: the series' one has to be there before it.
            sync_directory(&data.join("series"))?;
        }
        fs::rename(&points, named(data, "points", frozen.id, of_points))?;
        if sync {
            sync_directory(&data.join("points"))?;
        }
        Ok(bytes)
    };
    let outcome = written().map_err(|error| error.to_string());
    let outcome = outcome.and_then(|(lines, of_points, of_series)| {
        let bytes = name(of_points, of_series).map_err(|error| error.to_string())?;
        Ok((lines, bytes))
    });
    let (lines, bytes) = outcome.inspect_err(|_| {
        // The log has it all; what is half written only takes room.
        let _ = fs::remove_file(&series);
        let _ = fs::remove_file(&points);
    })?;
    let mut catalog = store.catalog.lock();
    catalog.sealing.retain(|other| !Arc::ptr_eq(other, frozen));
    for line in &lines {
        catalog.add(line.series, &line.totals);
    }
    catalog.segments += 1;
    catalog.stored_bytes += bytes;
    drop(catalog);
    if let Some(log) = &frozen.log {
        store.log_bytes.fetch_sub(log.length, Ordering::Relaxed);
        // One that stays is found to be of no use at the next start.
        let _ = fs::remove_file(&log.path);
    }
    Ok(())
}
