use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::*;
use venturi_base::data::archive::{Chunk, Reader};
use venturi_base::data::metrics::Metrics;
use venturi_base::data::points::{Block, Rows};
use venturi_engine::Control;
use venturi_testkit::assert_contains;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "venturi-archives-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn order(path: &Path, more: &str) -> String {
    let path = path.to_str().unwrap();
    format!(
        r#"{{"path": {path:?}, "data": {{"source": "metrics", "hosts": 10, "seed": 4}},
            "archives": 3, "steps": 50, "threads": 2{more}}}"#
    )
}

fn chunks(directory: &Path, manifest: &Manifest, points: u64) -> Result<Vec<Chunk>> {
    let archives = manifest.archives.iter();
    let archives = archives.map(|one| (directory.join(&one.file), one.clone()));
    let mut reader = Reader::start(0, archives.collect(), manifest.message(), points)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut all = Vec::new();
        while let Some(chunk) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
            let chunk = chunk?;
            reader.give_back(Vec::with_capacity(7));
            all.push(chunk);
        }
        Ok(all)
    })
}

#[test]
fn archives_hold_the_points_of_the_workload() {
    let scratch = Scratch::new();
    let answer = generate(&order(&scratch.0, ""), &Control::new()).unwrap();
    let manifest = Manifest::read(&scratch.0).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&answer).unwrap(), manifest);
    assert_eq!((manifest.points, manifest.series), (5_000, 100));
    assert_eq!(manifest.archives.len(), 3);
    assert_eq!(manifest.archives[0].file, "host_range_0_2.gz");
    assert_eq!(manifest.archives[2].hosts, (6, 9));
    assert_eq!(
        manifest.last_unix_ns - manifest.first_unix_ns,
        49_000_000_000
    );
    assert!(manifest.compressed_bytes < manifest.bytes / 2);

    let metrics = Metrics {
        hosts: 10,
        seed: 4,
        tick_ns: 1_000_000_000,
        start_unix_ns: 1_483_228_800_000_000_000,
        steps: Some(50),
    };
    let mut block = Block::default();
    metrics.walk(0..10).fill(1000, &mut block).unwrap();
    let digest = block.digest(&metrics.layout(0..10));
    assert_eq!(manifest.checksum, format!("{digest:016x}"));

    for points in [1, 70, 100, 1_000_000] {
        let all = chunks(&scratch.0, &manifest, points).unwrap();
        assert_eq!(all.iter().map(|chunk| chunk.points).sum::<u64>(), 5_000);
        let text: usize = all.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(text as u64, manifest.bytes);
        let sum = all
            .iter()
            .fold(0u64, |sum, chunk| sum.wrapping_add(chunk.digest));
        assert_eq!(sum, digest);
        for chunk in &all {
            assert!(chunk.points <= points.max(10));
            assert!(chunk.bytes.is_empty() || chunk.bytes.starts_with(b"+cpu.user|"));
        }
    }
    let again = generate(&order(&scratch.0, ""), &Control::new()).unwrap_err();
    assert_eq!(again.kind, Kind::Usage);
    assert_contains(&again.message, "files in it already");
}

#[test]
fn what_is_wrong_with_an_archive_is_said() {
    let scratch = Scratch::new();
    let more = r#", "format": "values", "digits": null, "level": 1"#;
    generate(&order(&scratch.0, more), &Control::new()).unwrap();
    let mut manifest = Manifest::read(&scratch.0).unwrap();
    assert_eq!(manifest.message(), (3, 1));
    let file = scratch.0.join(&manifest.archives[1].file);
    let whole = fs::read(&file).unwrap();
    let said = |result: Result<Vec<Chunk>>| result.unwrap_err().message;

    fs::write(&file, &whole[..whole.len() - 100]).unwrap();
    let short = Manifest::read(&scratch.0).unwrap_err();
    assert_contains(&short.message, "in the manifest");
    assert!(said(chunks(&scratch.0, &manifest, 100)).contains("not whole"));

    let mut broken = whole.clone();
    broken[whole.len() / 2] ^= 0x55;
    fs::write(&file, &broken).unwrap();
    let text = said(chunks(&scratch.0, &manifest, 100));
    assert_contains(&text, "host_range_3_5.gz");

    fs::write(&file, &whole).unwrap();
    manifest.archives[1].crc32 = "00000000".into();
    assert!(said(chunks(&scratch.0, &manifest, 100)).contains("crc32"));
    manifest.archives[1].file = "../x.gz".into();
    fs::write(
        scratch.0.join(MANIFEST),
        serde_json::to_string(&manifest).unwrap(),
    )
    .unwrap();
    assert_contains(
        &Manifest::read(&scratch.0).unwrap_err().message,
        "no file's name",
    );
    fs::remove_file(scratch.0.join(MANIFEST)).unwrap();
    assert_contains(
        &Manifest::read(&scratch.0).unwrap_err().message,
        "venturi generate",
    );
}

#[test]
fn a_cancel_leaves_nothing() {
    let scratch = Scratch::new();
    let control = Control::new();
    control.cancel();
    let error = generate(&order(&scratch.0, ""), &control).unwrap_err();
    assert_eq!(error.kind, Kind::Cancelled);
    assert!(!scratch.0.exists());
    for (more, says) in [
        (r#", "format": "dictionary""#, "dictionary"),
        (r#", "digits": 3"#, "digits"),
        (r#", "level": 10"#, "level"),
        (r#", "x": 1"#, "unknown field"),
    ] {
        let error = generate(&order(&scratch.0, more), &Control::new()).unwrap_err();
        assert!(error.message.contains(says), "{error}");
        assert!(!scratch.0.exists());
    }
}
